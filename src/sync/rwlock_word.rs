//! The word of a read-write lock, whose protocol is `raw_rwlock.rs`.
//!
//! - `WRITER`: a writer owns the lock. The count in units of `READER`: how many readers do.
//! - `QUEUED`: the queue is not empty. Changes under the queue's lock only.
//! - In units of `TOKEN`: how many waiters have been woken to try again and have not tried yet: each has a
//!   *token*. Given out under the queue's lock; given back by the waiter that has it, as it takes the lock
//!   or queues up again, or by who offered it in vain.
//! - `ALL_READ`: the tokens that are out are readers'.
//! - In units of `TURN`: how often the lock was taken past those with tokens since one of them came, or the
//!   first was woken, up to `OVERTAKEN`.
//!
//! Without a token there are neither turns nor `ALL_READ`.

pub(super) const WRITER: u64 = 1;
pub(super) const QUEUED: u64 = 2;
const ALL_READ: u64 = 4;
pub(super) const TOKEN: u64 = 8;
/// The tokens that are out.
pub(super) const TOKENS: u64 = 255 * TOKEN;
const TURN: u64 = 256 * TOKEN;
const TURNS: u64 = 255 * TURN;
pub(super) const READER: u64 = 256 * TURN;

/// From here on the tokens have been out for too long.
const LIMIT: u64 = OVERTAKEN * TURN;

/// How often the lock is left to others while a woken waiter does not come; 255 at most.
const OVERTAKEN: u64 = if cfg!(loom) { 1 } else { 64 };

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
        word & WRITER == 0 && (self == Want::Read || word < READER)
    }

    /// The word after `word` if one who comes with this want may take the lock; `past` those with tokens, who
    /// left it free, even if they were overtaken often enough.
    #[inline]
    pub(super) fn taken(self, word: u64, past: bool) -> Option<u64> {
        if !self.fits(word) {
            return None;
        }
        if word & TOKENS != 0 && word < READER {
            return match word & TURNS < LIMIT {
                true => self.added(word + TURN),
                false if past => self.added(word),
                false => None,
            };
        }
        match word & QUEUED == 0 && (word & TOKENS == 0 || word & ALL_READ != 0) {
            true => self.added(word),
            false => None,
        }
    }

    /// The word with one owner more; `None` if there are as many readers as can be counted: whoever comes
    /// then waits as for a writer.
    #[inline]
    pub(super) fn added(self, word: u64) -> Option<u64> {
        word.checked_add(self.share())
    }

    /// May it have a token beside those of other readers, to join one that reads?
    pub(super) fn may_join_invited(self, word: u64) -> bool {
        self == Want::Read && word >= READER && word & ALL_READ != 0 && word & TOKENS != TOKENS
    }

    /// Would it be in the way of those with tokens, who were overtaken often enough, at a lock that is free
    /// for it?
    pub(super) fn overtakes_too_often(self, word: u64) -> bool {
        self.fits(word) && word < READER && word & TOKENS != 0 && word & TURNS >= LIMIT
    }

    /// The word after one with this want was given a token. If others are out, they are readers', and so is
    /// this one.
    pub(super) fn with_one_token_more(self, word: u64) -> u64 {
        (word + TOKEN) | if self == Want::Read { ALL_READ } else { 0 }
    }
}

/// Is the queue's head to be served, if the owners in `word` let it in, and unless a token is near?
#[inline]
pub(super) fn is_queue_due(word: u64) -> bool {
    word & QUEUED != 0 && (word & TOKENS == 0 || word & TURNS >= LIMIT)
}

/// The word after `word` if the one with a token takes the lock, which it gives back so.
pub(super) fn with_token(want: Want, word: u64) -> Option<u64> {
    if want.fits(word) { want.added(without_token(word)) } else { None }
}

/// The word after a token was given back: whoever has another may be overtaken as often again.
pub(super) fn without_token(word: u64) -> u64 {
    token_refused(word) & !TURNS
}

/// The word after a token was offered to one who had given up.
pub(super) fn token_refused(word: u64) -> u64 {
    let left = word - TOKEN;
    if left & TOKENS == 0 { left & !(ALL_READ | TURNS) } else { left }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use Want::{Read, Write};

    /// The word when each of `wants`, in this order, was given a token.
    fn tokens(wants: &[Want]) -> u64 {
        wants.iter().fold(QUEUED, |word, want| want.with_one_token_more(word)) & !QUEUED
    }

    /// May who comes take the lock, and counts as a turn then?
    fn comes(want: Want, word: u64) -> Option<bool> {
        want.taken(word, false).map(|taken| taken == word + want.share() + TURN)
    }

    #[test]
    fn nobody_is_kept_out_of_a_lock_that_nobody_wants() {
        assert_eq!([comes(Read, 0), comes(Write, 0)], [Some(false); 2]);
        assert_eq!([comes(Read, 3 * READER), comes(Write, READER)], [Some(false), None]);
        assert_eq!([comes(Read, WRITER), comes(Write, WRITER)], [None; 2]);
    }

    #[test]
    fn who_waits_is_not_overtaken_without_a_token() {
        assert_eq!(
            [comes(Read, QUEUED), comes(Write, QUEUED), comes(Read, READER | QUEUED)],
            [None; 3]
        );
    }

    #[test]
    fn a_free_lock_is_taken_past_tokens_so_many_times() {
        for (token, queued) in [(Read, 0), (Read, QUEUED), (Write, 0), (Write, QUEUED)] {
            for want in [Read, Write] {
                let mut word = tokens(&[token]) | queued;
                for _ in 0..OVERTAKEN {
                    assert_eq!(comes(want, word), Some(true));
                    word += TURN;
                }
                assert_eq!(comes(want, word), None);
                assert_eq!(want.taken(word, true), Some(word + want.share()));
                assert!(want.overtakes_too_often(word) && !want.overtakes_too_often(word - TURN));
            }
        }
    }

    #[test]
    fn readers_are_joined_past_the_tokens_of_readers_alone() {
        let readers = 2 * READER;
        assert_eq!(comes(Read, readers | tokens(&[Read, Read])), Some(false));
        assert_eq!(comes(Read, readers | tokens(&[Read]) | QUEUED), None);
        assert_eq!(comes(Read, readers | tokens(&[Write])), None);
        assert_eq!(comes(Write, readers | tokens(&[Read])), None);
    }

    #[test]
    fn a_token_that_comes_back_leaves_what_the_others_need() {
        let two = tokens(&[Read, Read]) + TURN;
        assert_eq!(without_token(two), tokens(&[Read]));
        assert_eq!([without_token(without_token(two)), token_refused(token_refused(two))], [0; 2]);
        assert_eq!(token_refused(two), tokens(&[Read]) + TURN);
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
