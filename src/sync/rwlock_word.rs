//! The word of a read-write lock, whose protocol is `raw_rwlock.rs`.
//!
//! - `WRITER`: a writer owns the lock. The count in units of `READER`: how many readers do, or have come unlooked and
//!   leave again.
//! - `QUEUED`: the queue is not empty. Changes under the queue's lock only.
//! - In units of `TOKEN`: how many waiters have been woken to try again and have not tried yet: each has a
//!   *token*. Given out under the queue's lock; given back by the waiter that has it, as it takes the lock
//!   or queues up again, or by who offered it in vain.
//! - `ALL_READ`: the tokens that are out are readers'. Not without a token.

pub(super) const WRITER: u64 = 1;
pub(super) const QUEUED: u64 = 2;
const ALL_READ: u64 = 4;
pub(super) const TOKEN: u64 = 8;
/// The tokens that are out.
pub(super) const TOKENS: u64 = 255 * TOKEN;
pub(super) const READER: u64 = 256 * TOKEN;
/// So many readers, and no more, are let in: half of what can be counted, so that nobody overflows the count who comes
/// unlooked and leaves again.
pub(super) const MOST_READERS: u64 = 1 << 63;

/// What a waiter wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Read,
    Write,
}

impl Want {
    /// What its owner adds to the word.
    pub(super) fn share(self) -> u64 {
        if self == Want::Read { READER } else { WRITER }
    }

    /// Do the owners in `word` let it in?
    #[inline]
    pub(super) fn fits(self, word: u64) -> bool {
        if self == Want::Read { word & WRITER == 0 } else { is_free(word) }
    }

    /// The word after `word` if one who comes with this want may take the lock; past those with tokens, who left it
    /// free, only if it `overtakes` them.
    #[inline]
    pub(super) fn taken(self, word: u64, overtakes: bool) -> Option<u64> {
        let may = match is_overtakable(word) {
            true => overtakes,
            false => word & QUEUED == 0 && (word & TOKENS == 0 || word & ALL_READ != 0),
        };
        if may && self.fits(word) { self.added(word) } else { None }
    }

    /// The word with one owner more; `None` if there are as many readers as may be: whoever comes
    /// then waits as for a writer.
    #[inline]
    pub(super) fn added(self, word: u64) -> Option<u64> {
        (word < MOST_READERS).then(|| word + self.share())
    }

    /// May it have a token beside those of other readers, to join one that reads?
    pub(super) fn may_join_invited(self, word: u64) -> bool {
        self == Want::Read && word >= READER && word & ALL_READ != 0 && word & TOKENS != TOKENS
    }

    /// The word after one with this want was given a token. If others are out, they are readers', and so is
    /// this one.
    pub(super) fn with_one_token_more(self, word: u64) -> u64 {
        (word + TOKEN) | if self == Want::Read { ALL_READ } else { 0 }
    }
}

/// Does nobody own the lock, nor come unlooked?
#[inline]
pub(super) fn is_free(word: u64) -> bool {
    word & WRITER == 0 && word < READER
}

/// Is the lock free for those with tokens, of whom there are some?
#[inline]
pub(super) fn is_overtakable(word: u64) -> bool {
    word & TOKENS != 0 && is_free(word)
}

/// May a reader come past those with tokens, of whom there are some, beside others who did?
#[inline]
pub(super) fn may_read_past(word: u64) -> bool {
    word & TOKENS != 0 && word & WRITER == 0 && word < MOST_READERS
}

/// The word after `word` if the one with a token takes the lock, which it gives back so.
pub(super) fn with_token(want: Want, word: u64) -> Option<u64> {
    if want.fits(word) { want.added(without_token(word)) } else { None }
}

/// The word after a token was given back, or offered to one who had given up.
pub(super) fn without_token(word: u64) -> u64 {
    let left = word - TOKEN;
    if left & TOKENS == 0 { left & !ALL_READ } else { left }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use Want::{Read, Write};

    /// The word when each of `wants`, in this order, was given a token.
    fn tokens(wants: &[Want]) -> u64 {
        wants.iter().fold(QUEUED, |word, want| want.with_one_token_more(word)) & !QUEUED
    }

    /// May who comes take the lock?
    fn comes(want: Want, word: u64, overtakes: bool) -> bool {
        let taken = want.taken(word, overtakes);
        assert!(taken.is_none_or(|taken| taken == word + want.share()));
        taken.is_some()
    }

    fn never(want: Want, word: u64) -> bool {
        !comes(want, word, true)
    }

    fn always(want: Want, word: u64) -> bool {
        comes(want, word, false)
    }

    #[test]
    fn nobody_is_kept_out_of_a_lock_that_nobody_wants() {
        assert!(always(Read, 0) && always(Write, 0));
        assert!(always(Read, 3 * READER) && never(Write, READER));
        assert!(never(Read, WRITER) && never(Write, WRITER));
    }

    #[test]
    fn who_waits_is_not_overtaken_without_a_token() {
        assert!(never(Read, QUEUED) && never(Write, QUEUED) && never(Read, READER | QUEUED));
    }

    #[test]
    fn a_free_lock_is_taken_past_tokens_by_who_may_overtake() {
        for (token, queued) in [(Read, 0), (Read, QUEUED), (Write, 0), (Write, QUEUED)] {
            let word = tokens(&[token]) | queued;
            assert!(is_overtakable(word) && !is_overtakable(word | WRITER));
            assert!(!is_overtakable(word + READER) && !is_overtakable(queued));
            for want in [Read, Write] {
                assert!(comes(want, word, true) && !comes(want, word, false));
            }
        }
    }

    #[test]
    fn readers_come_past_tokens_together() {
        let word = tokens(&[Write]) | QUEUED;
        assert!(may_read_past(word) && may_read_past(word | (2 * READER)));
        assert!(!may_read_past(word | WRITER) && !may_read_past(word | MOST_READERS));
        assert!(!may_read_past(2 * READER) && !may_read_past(READER | QUEUED));
    }

    #[test]
    fn readers_are_joined_past_the_tokens_of_readers_alone() {
        let readers = 2 * READER;
        assert!(always(Read, readers | tokens(&[Read, Read])));
        assert!(never(Read, readers | tokens(&[Read]) | QUEUED));
        assert!(never(Read, readers | tokens(&[Write])));
        assert!(never(Write, readers | tokens(&[Read])));
    }

    #[test]
    fn a_token_that_comes_back_leaves_what_the_others_need() {
        let two = tokens(&[Read, Read]);
        assert_eq!(without_token(two), tokens(&[Read]));
        assert_eq!(without_token(without_token(two)), 0);
        assert_eq!(with_token(Read, two | READER), Some(tokens(&[Read]) | (2 * READER)));
        assert_eq!(with_token(Write, tokens(&[Write]) | QUEUED), Some(WRITER | QUEUED));
        assert_eq!([with_token(Write, two | READER), with_token(Read, two | WRITER)], [None; 2]);
    }

    #[test]
    fn no_more_are_invited_than_can_be_counted() {
        let mut word = READER;
        for _ in 0..TOKENS / TOKEN {
            word = Read.with_one_token_more(word);
            assert!(!Write.may_join_invited(word));
            assert_eq!(Read.may_join_invited(word), word & TOKENS != TOKENS);
        }
        // Nor to join nobody, or beside a writer's token.
        assert!(!Read.may_join_invited(tokens(&[Read])));
        assert!(!Read.may_join_invited(READER | tokens(&[Write])));
    }
}
