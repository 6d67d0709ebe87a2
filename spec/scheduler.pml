/*
 * Parking and waking, the LIFO slot, the ring and its thieves: what src/scheduler/README.md says, for Spin.
 * README.md beside this file says what is checked and how; .ci/spec runs it.
 *
 * Steps that one instruction makes in the program are one step here (an exchange, a store that becomes
 * visible, what is done under a lock); between two of them anyone may do anything. Where a fence is left
 * out (NO_FENCE, NO_PARK_FENCE), the store before it may become visible after the load behind it.
 */

#ifndef W
#define W 2                     /* workers */
#endif
#ifndef CAP
#define CAP 2                   /* slots of a ring */
#endif
#define F 4                     /* fibers */
#define NONE 15
#define AROUND (2 * CAP)        /* where the indices of a ring wrap */
#ifdef TICK                     /* dispatches between two looks at the injector; else never */
#define COUNT_TICK tick++
#else
#define TICK 1
#define COUNT_TICK skip
#endif
#define LIFO_RUNS 1             /* dispatches from the slot in a row */
#ifndef SPURIOUS
#define SPURIOUS 0              /* how often each worker may wake by itself */
#endif

/* ---- what is shared ---- */

typedef Ring {
    byte slot[CAP];
    byte steal;                 /* up to here slots may be written again */
    byte real;                  /* up to here fibers are taken */
    byte tail
};
Ring ring[W];
byte lifo[W];
chan injector = [F] of { byte };
byte searching;                 /* these two are one word */
byte parked;
bool is_parked[W];              /* the bitmap of parked workers */
bool token[W];                  /* an unpark that its worker has not taken yet */

/* A fiber's state word. */
mtype = { fresh, going, waits, done };   /* `going`: runs, or is queued to go on */
mtype word[F] = fresh;
bool permit[F];

/* ---- what only the checks look at ---- */

bool queued[F];                 /* runnable, and in nobody's hands to run */
bool running[F];
bool hogged[W];                 /* the fiber that runs here never comes back */
byte watched;                   /* the fiber whose progress is checked */
chan queue0 = [CAP] of { byte };/* what ring 0 is, as a queue */
#if W > 1
chan queue1 = [CAP] of { byte };
#endif

#define ENQUEUED(f) assert(!queued[f] && !running[f]); queued[f] = true

#define AT(index)       ((index) % CAP)
#define LENGTH(w)       ((ring[w].tail + AROUND - ring[w].real) % AROUND)
#define TAKEN(w)        ((ring[w].tail + AROUND - ring[w].steal) % AROUND)
#define IS_STEALING(w)  (ring[w].steal != ring[w].real)

#if W > 1
#define MODEL_PUSH(w, f) if :: w == 0 -> queue0!f :: else -> queue1!f fi
#define MODEL_POP(w, f)  if :: w == 0 -> queue0?f :: else -> queue1?f fi
#else
#define MODEL_PUSH(w, f) queue0!f
#define MODEL_POP(w, f)  queue0?f
#endif

/* ---- the fibers' programs ---- */

#define SPAWN 0
#define WAKE  1
#define YIELD 2
#define PARK  3
#define END   4
#define HOG   5
#define AGAIN 6                 /* from the first instruction on */

#if defined(BURST) || defined(CALL)
#define ALL_END true
#else
#define ALL_END false
#endif

local byte pc[F];               /* each read and written by the worker that runs the fiber */

#define DO(o, a) op = o; arg = a

#ifdef PAIR
#define FROM_OUTSIDE(f) (f != 1)
#elif defined(LIVENESS) && defined(STALL)
#define FROM_OUTSIDE(f) (f == 0)
#else
#define FROM_OUTSIDE(f) (f == 0 || f == 3)
#endif

inline fetch(f) {
    d_step {
        arg = NONE;
        if
#if defined(BURST)
        /* A fiber starts two, yields, parks; one of the two wakes it. The fourth comes from outside. */
        :: f == 0 && pc[f] == 0 -> DO(SPAWN, 1)
        :: f == 0 && pc[f] == 1 -> DO(SPAWN, 2)
        :: f == 0 && pc[f] == 2 -> DO(YIELD, NONE)
        :: f == 0 && pc[f] == 3 -> DO(PARK, NONE)
        :: f == 1 && pc[f] == 0 -> DO(YIELD, NONE)
        :: f == 2 && pc[f] == 0 -> DO(WAKE, 0)
#elif defined(CALL)
        /* A fiber starts two and waits for the first. The fourth comes from outside. */
        :: f == 0 && pc[f] == 0 -> DO(SPAWN, 1)
        :: f == 0 && pc[f] == 1 -> DO(SPAWN, 2)
        :: f == 0 && pc[f] == 2 -> DO(PARK, NONE)
        :: f == 1 && pc[f] == 0 -> DO(WAKE, 0)
#elif defined(ALONE)
        /* A fiber that never comes back, and another from outside. */
        :: f == 0 && pc[f] == 0 -> DO(HOG, NONE)
#elif defined(STALL)
        /* A fiber starts two and never comes back: one stands in the slot then, one in the ring. */
        :: f == 0 && pc[f] == 0 -> DO(SPAWN, 1)
        :: f == 0 && pc[f] == 1 -> DO(SPAWN, 2)
        :: f == 0 && pc[f] == 2 -> DO(HOG, NONE)
#elif defined(PAIR)
        /* Two wake each other for ever, one yields for ever, one comes from outside. */
        :: f == 0 && pc[f] == 0 -> DO(SPAWN, 1)
        :: f == 0 && pc[f] == 1 -> DO(PARK, NONE)
        :: f == 0 && pc[f] == 2 -> DO(WAKE, 1)
        :: f == 0 && pc[f] == 3 -> pc[f] = 1; DO(PARK, NONE)
        :: f == 1 && pc[f] == 0 -> DO(WAKE, 0)
        :: f == 1 && pc[f] == 1 -> DO(PARK, NONE)
        :: f == 1 && pc[f] == 2 -> pc[f] = 0; DO(WAKE, 0)
        :: f == 2 && pc[f] == 0 -> DO(YIELD, NONE)
        :: f == 2 && pc[f] == 1 -> pc[f] = 0; DO(YIELD, NONE)
#endif
        :: else -> DO(END, NONE)
        fi;
        pc[f] = pc[f] + 1;
        /* What an instruction does before it touches a queue. */
        if
        :: op == SPAWN -> word[arg] = fresh; ENQUEUED(arg)
        :: op == WAKE && word[arg] == waits -> word[arg] = going; ENQUEUED(arg)
        :: op == WAKE && word[arg] == going -> permit[arg] = true; arg = NONE
        :: op == END -> running[f] = false; word[f] = done
        :: else
        fi
    }
}

/* ---- notify ---- */

#define READ_COUNTS should = (searching == 0 && parked > 0)

#define CLAIM_ONE(w) is_parked[w] = false; target = w; parked--; searching++
#if W == 1
#define CLAIM_LOWEST if :: is_parked[0] -> CLAIM_ONE(0) :: else fi
#else
#define CLAIM_LOWEST \
    if :: is_parked[0] -> CLAIM_ONE(0) \
       :: !is_parked[0] && is_parked[1] -> CLAIM_ONE(1) \
       :: else fi
#endif

/* The counts have been read: claim a worker, which counts as searching from then on, and unpark it. */
#define CLAIM \
    if \
    :: should -> \
        d_step { should = false; CLAIM_LOWEST }; \
        if \
        :: target != NONE -> d_step { token[target] = true; target = NONE } \
        :: else \
        fi \
    :: else \
    fi

/* Makes work visible by `step`, full fence, reads the counts. */
#ifdef NO_FENCE
#define VISIBLE_AND_NOTIFY(step) if :: step; READ_COUNTS :: READ_COUNTS; step fi; CLAIM
#else
#define VISIBLE_AND_NOTIFY(step) step; READ_COUNTS; CLAIM
#endif

/* ---- the queues ---- */

/* Behind all others of this worker; what overflows goes to the injector, under one lock. */
#define PUBLISH_PUSH(f) \
    d_step { \
        if \
        :: TAKEN(me) < CAP -> \
            ring[me].slot[AT(ring[me].tail)] = f; \
            ring[me].tail = (ring[me].tail + 1) % AROUND; \
            MODEL_PUSH(me, f) \
        :: TAKEN(me) == CAP && IS_STEALING(me) -> \
            injector!f \
        :: else -> \
            injector!ring[me].slot[AT(ring[me].real)]; \
            MODEL_POP(me, moved); assert(moved == ring[me].slot[AT(ring[me].real)]); moved = NONE; \
            ring[me].real = (ring[me].real + 1) % AROUND; \
            ring[me].steal = ring[me].real; \
            injector!f \
        fi \
    }

#define PUSH_BACK(f) VISIBLE_AND_NOTIFY(PUBLISH_PUSH(f))

/* Woken or spawned by a fiber here: into the slot; only what it displaces wakes others. */
#define PUSH_WOKEN(f) \
    d_step { displaced = lifo[me]; lifo[me] = f }; \
    if \
    :: displaced != NONE -> PUSH_BACK(displaced); displaced = NONE \
    :: else \
    fi

/* The owner takes the oldest of its ring. */
#ifdef POP_MOVES_STEAL
#define ADVANCE ring[me].real = (ring[me].real + 1) % AROUND; ring[me].steal = ring[me].real
#else
#define ADVANCE \
    if \
    :: IS_STEALING(me) -> ring[me].real = (ring[me].real + 1) % AROUND \
    :: else -> ring[me].real = (ring[me].real + 1) % AROUND; ring[me].steal = ring[me].real \
    fi
#endif

/* LIFO slot, then ring, until the tick is over. A slot whose turn is over is flushed first. */
inline next_local(f) {
    d_step {
        if
        :: tick == TICK -> saw = true           /* something else is due */
        :: tick < TICK ->
            COUNT_TICK;
            if
#ifdef NO_LIFO_CAP
            :: lifo[me] != NONE -> f = lifo[me]; lifo[me] = NONE
#else
            :: lifo[me] != NONE && runs < LIFO_RUNS -> f = lifo[me]; lifo[me] = NONE; runs++
            :: lifo[me] != NONE && runs >= LIFO_RUNS -> displaced = lifo[me]; lifo[me] = NONE; runs = 0
#endif
            :: lifo[me] == NONE -> runs = 0
            fi
        fi
    };
    if
    :: displaced != NONE -> PUSH_BACK(displaced); displaced = NONE
    :: else
    fi;
    d_step {
        if
        :: f == NONE && !saw && LENGTH(me) > 0 ->
            f = ring[me].slot[AT(ring[me].real)];
            MODEL_POP(me, moved); assert(moved == f); moved = NONE;
            ADVANCE
        :: else
        fi;
        saw = false
    }
}

/* A batch of at most two: the first to run, the second into the ring. */
inline take_from_injector(f) {
    d_step {
        if
        :: len(injector) > 0 ->
            injector?f;
            if
            :: len(injector) > 0 && TAKEN(me) < CAP -> injector?second
            :: else
            fi
        :: else
        fi
    };
    if
    :: second != NONE -> PUSH_BACK(second); second = NONE
    :: else
    fi
}

/* Half of a ring, in the thief's hands: claims by moving `real`, copies, moves `steal` up. */
#define CLAIM_HALF(v) \
    d_step { \
        first = ring[v].real; \
        if \
        :: IS_STEALING(v) \
        :: !IS_STEALING(v) && LENGTH(v) > 0 -> \
            count = (LENGTH(v) + 1) / 2; \
            MODEL_POP(v, expected); \
            if :: count == 2 -> MODEL_POP(v, expected2) :: else fi; \
            ring[v].real = (ring[v].real + count) % AROUND \
        :: else \
        fi \
    }
/* W3: what is copied is what was the oldest at the claim. */
#define COPY(v, f) \
    d_step { \
        f = ring[v].slot[AT(first)]; \
        assert(f == expected); expected = NONE; \
        if \
        :: count == 2 -> second = ring[v].slot[AT(first + 1)]; assert(second == expected2); expected2 = NONE \
        :: else \
        fi; \
        first = 0 \
    }
#define RELEASE(v) d_step { ring[v].steal = ring[v].real; count = 0 }

inline steal_from(v, f) {
    CLAIM_HALF(v);
    if
    :: count > 0 ->
        COPY(v, f);
        RELEASE(v);
        /* Into the own ring, which is empty; quietly: a searcher that found work wakes the next, if there is more. */
        if
        :: second != NONE -> PUBLISH_PUSH(second); second = NONE
        :: else
        fi
    :: else -> first = 0
    fi
}

/* ---- a worker ---- */

#define PUBLISH_PARK \
    d_step { \
        was_last = (is_searching && searching == 1); \
        is_parked[me] = true; \
        parked++; \
        if :: is_searching -> searching--; is_searching = false :: else fi \
    }

#if W > 1
#define LOOK saw = (len(injector) > 0); saw = saw || LENGTH(0) > 0; saw = saw || LENGTH(1) > 0
#else
#define LOOK saw = (len(injector) > 0); saw = saw || LENGTH(0) > 0
#endif

/* Has found work. The last one looks whether there is more, after a fence; here all do. */
#define LEAVE_SEARCH d_step { is_searching = false; searching--; should = (searching == 0) }

proctype worker(byte me) {
    byte f = NONE;              /* runs, or is to run */
    byte next = NONE;
    byte displaced = NONE, second = NONE, moved = NONE;
    byte expected = NONE, expected2 = NONE, first, count;
    byte op, arg = NONE;
    byte tick, runs;
    bool is_searching, should, saw, was_last;
    byte target = NONE;
    byte spurious = SPURIOUS;   /* how often it may wake by itself */

find:
    /* On its own stack: the injector when it is due, slot and ring, injector, search. */
    if
    :: tick == TICK ->
        tick = 0;
#ifndef INJECTOR_NOT_DUE
        take_from_injector(f)
#endif
    :: else
    fi;
    if :: f == NONE -> next_local(f) :: else fi;
    if :: f == NONE -> take_from_injector(f) :: else fi;
#if W > 1
    if
    :: f == NONE ->
        if
        :: !is_searching && 2 * searching < W -> searching++; is_searching = true
        :: else
        fi;
        if
        :: is_searching ->
            steal_from(1 - me, f);
            if :: f == NONE -> take_from_injector(f) :: else fi
        :: else
        fi
    :: else
    fi;
#endif
    if
    :: f == NONE -> goto park
    :: else
    fi;
    if
    :: is_searching ->
#ifdef NO_SEARCH_FENCE
        if :: LEAVE_SEARCH; LOOK :: LOOK; LEAVE_SEARCH fi;
#else
        LEAVE_SEARCH; LOOK;
#endif
        d_step { should = should && saw; saw = false };
#ifdef NO_CHAIN
        should = false;
#endif
        if :: should -> READ_COUNTS; CLAIM :: else fi
    :: else
    fi;

dispatch:
    atomic {
        assert(queued[f] && !running[f]);       /* W2 */
        queued[f] = false;
        running[f] = true;
        if :: word[f] == fresh -> word[f] = going :: else fi;
        assert(word[f] == going);
        fetch(f)
    };
    do
    :: arg != NONE -> PUSH_WOKEN(arg); arg = NONE; fetch(f)
    :: arg == NONE && op < YIELD -> fetch(f)
    :: op == HOG -> hogged[me] = true;
end_hog:
        false
    :: else -> break
    od;

    /* Leaves the fiber: chooses the next one first, then does what is to be done about the leaver. */
    next_local(next);
    if
    :: op == END -> f = NONE
    :: op == YIELD -> d_step { running[f] = false; ENQUEUED(f) }; PUSH_BACK(f); f = NONE
    :: op == PARK ->
        d_step {
            running[f] = false;
            if
#ifdef WAKE_LOST
            :: permit[f] -> permit[f] = false; word[f] = waits; f = NONE
#else
            :: permit[f] -> permit[f] = false; ENQUEUED(f)
#endif
            :: else -> word[f] = waits; f = NONE
            fi
        };
        if :: f != NONE -> PUSH_WOKEN(f); f = NONE :: else fi
    fi;
    d_step { f = next; next = NONE; op = 0 };
    if :: f == NONE -> goto find :: else -> goto dispatch fi;

park:
    tick = 0;
#ifdef NO_PARK_FENCE
    if :: PUBLISH_PARK; LOOK :: LOOK; PUBLISH_PARK fi;
#else
    PUBLISH_PARK; LOOK;
#endif
#ifdef SKIP_LAST_LOOK
    saw = false;
#endif
#ifdef ONLY_THE_LAST_SEARCHER_LOOKS
    saw = saw && was_last;
#endif
    was_last = false;
    if
    :: saw
    :: else ->
end_sleep:
        if
        :: token[me] -> token[me] = false
        :: spurious > 0 -> spurious--
        fi
    fi;
    /* Leaves its bed: the bit is gone exactly if somebody claimed this worker. */
    d_step {
        if
        :: is_parked[me] -> is_parked[me] = false; parked--
        :: else ->
#ifdef LEAK_SEARCHER
            skip
#else
            is_searching = true
#endif
        fi
    };
    if
    :: saw && !is_searching -> searching++; is_searching = true
    :: else
    fi;
    saw = false;
    goto find
}

/* ---- those outside ---- */

/* A plain thread, which spawns. */
proctype outside() {
    bool should;
    byte target = NONE;
    byte f;
    do
    :: f < F ->
        if
        :: FROM_OUTSIDE(f) -> VISIBLE_AND_NOTIFY(injector!f)
        :: else
        fi;
        f++
    :: else -> break
    od
}

#ifdef SUPERVISED
/* Takes a slot that has aged and, unless told otherwise, the ring of a worker that has stalled. Always
 * as a thief: it never touches what is the owner's. */
proctype supervisor() {
    bool should;
    byte v, f = NONE, second = NONE, target = NONE;
    byte expected = NONE, expected2 = NONE, first, count;
end_watch:
    do
#ifdef SLOT_UNSTEALABLE
    :: false
#else
    :: d_step { lifo[0] != NONE -> f = lifo[0]; lifo[0] = NONE };
        VISIBLE_AND_NOTIFY(injector!f); f = NONE
    :: d_step { lifo[1] != NONE -> f = lifo[1]; lifo[1] = NONE };
        VISIBLE_AND_NOTIFY(injector!f); f = NONE
#endif
#ifdef TAKES_RINGS
    :: d_step { hogged[0] && LENGTH(0) > 0 -> v = 0 }; goto rob
    :: d_step { hogged[1] && LENGTH(1) > 0 -> v = 1 }; goto rob
#endif
    od;
#ifdef TAKES_RINGS
rob:
    skip;
    CLAIM_HALF(v);
    if
    :: count > 0 ->
        COPY(v, f);
        RELEASE(v);
        injector!f; f = NONE;
        if :: second != NONE -> injector!second; second = NONE :: else fi;
        v = 0;
        VISIBLE_AND_NOTIFY(skip)
    :: else -> d_step { v = 0; first = 0 }
    fi;
    goto end_watch
#endif
}
#endif

/* ---- what is checked ---- */

init {
    byte i;
    d_step {
        i = 0;
        do :: i < W -> lifo[i] = NONE; i++ :: else -> break od;
        i = 0;
        do :: i < F -> queued[i] = FROM_OUTSIDE(i); i++ :: else -> break od;
        i = 0
    };
#ifdef LIVENESS
    do
    :: watched < F - 1 -> watched++
    :: break
    od;
#endif
    atomic {
        run worker(0);
#if W > 1
        run worker(1);
#endif
#ifdef SUPERVISED
        run supervisor();
#endif
        run outside()
    };
#ifndef LIVENESS
    /* Nobody can do anything any more: nothing is left behind, and nobody counts as searching. */
    timeout ->
    d_step {
        i = 0;
        do
        :: i < F -> assert(!queued[i] && !(ALL_END && word[i] != done)); i++   /* W1 */
        :: else -> break
        od;
        assert(searching == 0);
        assert(len(injector) == 0);
        i = 0;
        do
        :: i < W -> assert(!IS_STEALING(i) && (hogged[i] || (is_parked[i] && !token[i]))); i++
        :: else -> break
        od
    }
#endif
}

/* W5: whoever is runnable runs. */
ltl progress { [] (queued[watched] -> <> !queued[watched]) }
