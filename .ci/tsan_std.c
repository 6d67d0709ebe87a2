/* What std does out of line, told to ThreadSanitizer.
 *
 * std's own code is not instrumented. Where it is inlined into instrumented code that does no harm;
 * of what is left, two functions carry an order that others rely on. The linker's --wrap puts these
 * in front of them (see .ci/sanitize, which knows their mangled names). */
#include <stdbool.h>

#define JOIN(a, b) a##b
#define WRAP(name) JOIN(__wrap_, name)
#define REAL(name) JOIN(__real_, name)

void __tsan_acquire(void *);
void __tsan_release(void *);

/* std::sync::Mutex: a lock that had to wait. The unlock before it is inlined. */
void REAL(LOCK_CONTENDED)(void *mutex);
void WRAP(LOCK_CONTENDED)(void *mutex) {
    REAL(LOCK_CONTENDED)(mutex);
    __tsan_acquire(mutex);
}

/* std::thread::scope: the end of a scoped thread. The scope, which is inlined, reads the counter of
 * running threads, one of the three words behind `scope`. */
void REAL(SCOPE_DECREMENT)(void *scope, bool panicked);
void WRAP(SCOPE_DECREMENT)(void *scope, bool panicked) {
    for (int word = 0; word < 3; word++)
        __tsan_release((char *)scope + 8 * word);
    REAL(SCOPE_DECREMENT)(scope, panicked);
}
