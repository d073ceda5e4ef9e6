//! Shelves: objects that a caller holds by ticket.
//!
//! A ticket looks like a pointer to C and is none: it names a place on a shelf, the generation of what stands there, and the kind of
//! shelf. Giving it back changes the generation, so that a ticket is good from `put` to `remove` and never again; any other word is
//! no ticket. A place is used again, but its memory never goes away: whatever is passed, in whatever order by however many threads,
//! a lookup reads valid memory and answers the right object or none.
//!
//! Costs: a lookup is two loads and a comparison; it takes no lock. Memory: as many places as were ever taken at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Low bits of a ticket: the kind of shelf.
const KIND_BITS: u32 = 4;
/// Above them the place: sixteen million objects of a kind at once, four thousand on small machines.
const PLACE_BITS: u32 = if usize::BITS == 64 { 24 } else { 12 };
/// Above them the generation.
const LAST_GENERATION: usize = usize::MAX >> (KIND_BITS + PLACE_BITS);

/// Row `n` has `FIRST_ROW << n` places.
const FIRST_ROW: usize = 16;
const ROWS: usize = PLACE_BITS as usize - FIRST_ROW.ilog2() as usize;

/// Objects of one kind. A place keeps its `T` for ever; `put` and `remove` only fill and empty it, so it looks after its own threads.
pub(crate) struct Shelf<T: 'static> {
    kind: usize,
    rows: [OnceLock<Box<[Place<T>]>>; ROWS],
    free: Mutex<Free>,
}

struct Place<T> {
    /// Odd while somebody holds it: that of his ticket. Even while it is free.
    generation: AtomicUsize,
    thing: T,
}

struct Free {
    /// Places from here on were never taken.
    next: usize,
    /// Places to take again, the one that was given back first comes first.
    back: VecDeque<usize>,
}

impl<T: Default> Shelf<T> {
    /// An empty shelf. `kind` tells its tickets from those of the others: 1 to 15.
    pub(crate) const fn new(kind: usize) -> Shelf<T> {
        Shelf {
            kind,
            rows: [const { OnceLock::new() }; ROWS],
            free: Mutex::new(Free { next: 0, back: VecDeque::new() }),
        }
    }

    /// Takes a place, fills it, and answers its ticket; 0 if there is no place left.
    pub(crate) fn put(&'static self, fill: impl FnOnce(&'static T)) -> usize {
        let Some(number) = self.take_place() else { return 0 };
        let Some(place) = self.place(number) else { return 0 };
        fill(&place.thing);
        let generation = place.generation.fetch_add(1, Ordering::AcqRel) + 1;
        generation << (PLACE_BITS + KIND_BITS) | number << KIND_BITS | self.kind
    }

    /// What the ticket stands for, if it is good.
    #[inline]
    pub(crate) fn get(&'static self, ticket: usize) -> Option<&'static T> {
        let (place, generation) = self.named(ticket)?;
        (place.generation.load(Ordering::Acquire) == generation).then_some(&place.thing)
    }

    /// Ends a ticket and empties its place. Of several that ask at once, one does it; the others do nothing.
    pub(crate) fn remove(&'static self, ticket: usize, empty: impl FnOnce(&'static T)) {
        let Some((place, generation)) = self.named(ticket) else { return };
        let ended = place.generation.compare_exchange(generation, generation + 1, Ordering::AcqRel, Ordering::Relaxed);
        if ended.is_ok() {
            empty(&place.thing);
            if generation + 2 < LAST_GENERATION {
                lock(&self.free).back.push_back(ticket >> KIND_BITS & ((1 << PLACE_BITS) - 1));
            }
        }
    }

    /// The place that a word names, if it could be a ticket of this shelf, and the generation that it claims.
    #[inline]
    fn named(&'static self, ticket: usize) -> Option<(&'static Place<T>, usize)> {
        if ticket & ((1 << KIND_BITS) - 1) != self.kind {
            return None;
        }
        let generation = ticket >> (PLACE_BITS + KIND_BITS);
        let (row, at) = position(ticket >> KIND_BITS & ((1 << PLACE_BITS) - 1));
        let place = self.rows.get(row)?.get()?.get(at)?;
        (generation % 2 == 1).then_some((place, generation))
    }

    fn take_place(&self) -> Option<usize> {
        let mut free = lock(&self.free);
        if let Some(number) = free.back.pop_front() {
            return Some(number);
        }
        let number = free.next;
        free.next += (number < 1 << PLACE_BITS) as usize;
        (number < free.next).then_some(number)
    }

    fn place(&'static self, number: usize) -> Option<&'static Place<T>> {
        let (row, at) = position(number);
        let fresh = || (0..FIRST_ROW << row).map(|_| Place { generation: AtomicUsize::new(0), thing: T::default() });
        self.rows.get(row)?.get_or_init(|| fresh().collect()).get(at)
    }
}

/// The row of a place, and where in the row it is.
#[inline]
fn position(number: usize) -> (usize, usize) {
    let row = (number / FIRST_ROW + 1).ilog2() as usize;
    (row, number - FIRST_ROW * ((1 << row) - 1))
}

/// Locks, whether or not a thread once panicked inside: what is guarded here is whole at every moment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(to: usize) -> impl FnOnce(&'static AtomicUsize) {
        move |thing| thing.store(to, Ordering::Relaxed)
    }

    #[test]
    fn a_ticket_is_good_until_it_is_given_back() {
        static SHELF: Shelf<AtomicUsize> = Shelf::new(3);
        let tickets: Vec<usize> = (0..1000).map(|number| SHELF.put(set(number))).collect();
        for (number, ticket) in tickets.iter().enumerate() {
            assert_eq!(SHELF.get(*ticket).unwrap().load(Ordering::Relaxed), number);
        }
        for ticket in &tickets[..500] {
            let mut emptied = 0;
            SHELF.remove(*ticket, |_| emptied += 1);
            SHELF.remove(*ticket, |_| emptied += 1);
            assert_eq!(emptied, 1);
            assert!(SHELF.get(*ticket).is_none());
        }
        let again: Vec<usize> = (0..500).map(|number| SHELF.put(set(number))).collect();
        assert!(again.iter().all(|ticket| !tickets.contains(ticket)));
        assert!(tickets[..500].iter().all(|ticket| SHELF.get(*ticket).is_none()));
        assert!(tickets[500..].iter().all(|ticket| SHELF.get(*ticket).is_some()));
    }

    #[test]
    fn no_other_word_is_a_ticket() {
        static SHELF: Shelf<AtomicUsize> = Shelf::new(3);
        static OTHER: Shelf<AtomicUsize> = Shelf::new(4);
        let (ticket, other) = (SHELF.put(set(1)), OTHER.put(set(2)));
        assert!(SHELF.get(other).is_none() && OTHER.get(ticket).is_none());
        let words = (0..usize::BITS).map(|bit| ticket ^ 1 << bit).chain([0, 1, 3, usize::MAX]);
        assert!(words.filter(|word| *word != ticket).all(|word| SHELF.get(word).is_none()));
        SHELF.remove(other, |_| panic!("another's"));
        SHELF.remove(0, |_| panic!("nobody's"));
        assert!(SHELF.get(ticket).is_some());
    }

    #[test]
    fn places_lie_row_after_row() {
        let mut expected = (0, 0);
        for number in 0..100_000 {
            assert_eq!(position(number), expected);
            expected.1 += 1;
            if expected.1 == FIRST_ROW << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(position((1 << PLACE_BITS) - 1).0, ROWS, "the last places have no row: they are never taken");
    }
}
