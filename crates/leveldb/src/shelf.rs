//! Handle tables: objects that a caller holds by ticket.
//!
//! C sees a ticket as a pointer, but it is none: it encodes a place in the table, the generation of the object there,
//! and the kind of the table. `remove` changes the generation, so a ticket is valid from `put` to `remove` and never
//! again; any other word is not a ticket. A place is reused, but its memory is never freed: whatever word is passed,
//! from any number of threads, a lookup reads valid memory and returns the right object or `None`.
//!
//! Costs: a lookup is two loads and a comparison; it takes no lock. Memory: the maximum number of places in use at one
//! time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Low bits of a ticket: the kind of the table.
const KIND_BITS: u32 = 4;
/// Above them the place: sixteen million objects of a kind at a time, four thousand on 32-bit machines.
const PLACE_BITS: u32 = if usize::BITS == 64 { 24 } else { 12 };
/// Above them the generation.
const LAST_GENERATION: usize = usize::MAX >> (KIND_BITS + PLACE_BITS);

/// Row `n` has `FIRST_ROW << n` places.
const FIRST_ROW: usize = 16;
const ROWS: usize = PLACE_BITS as usize - FIRST_ROW.ilog2() as usize;

/// A handle table for objects of one kind. A place keeps its `T` forever; `put` and `remove` only fill and empty it, so
/// `T` must be thread-safe itself.
pub(crate) struct Shelf<T: 'static> {
    kind: usize,
    rows: [OnceLock<Box<[ShelfSlot<T>]>>; ROWS],
    free: Mutex<Free>,
}

struct ShelfSlot<T> {
    /// Odd while the place is in use: the generation of its ticket. Even while the place is free.
    generation: AtomicUsize,
    thing: T,
}

struct Free {
    /// Places from here on were never used.
    next: usize,
    /// Free places; the one that was freed first is reused first.
    back: VecDeque<usize>,
}

impl<T: Default> Shelf<T> {
    /// Creates an empty table. `kind`, 1 to 15, distinguishes its tickets from those of other tables.
    pub(crate) const fn new(kind: usize) -> Shelf<T> {
        Shelf {
            kind,
            rows: [const { OnceLock::new() }; ROWS],
            free: Mutex::new(Free { next: 0, back: VecDeque::new() }),
        }
    }

    /// Takes a free place, fills it, and returns its ticket; 0 if no place is free.
    pub(crate) fn put(&'static self, fill: impl FnOnce(&'static T)) -> usize {
        let Some(number) = self.take_place() else { return 0 };
        let Some(place) = self.place(number) else { return 0 };
        fill(&place.thing);
        let generation = place.generation.fetch_add(1, Ordering::AcqRel) + 1;
        generation << (PLACE_BITS + KIND_BITS) | number << KIND_BITS | self.kind
    }

    /// Returns the object of a ticket, if the ticket is valid.
    #[inline]
    pub(crate) fn get(&'static self, ticket: usize) -> Option<&'static T> {
        let (place, generation) = self.named(ticket)?;
        (place.generation.load(Ordering::Acquire) == generation).then_some(&place.thing)
    }

    /// Invalidates a ticket and empties its place. If several threads remove one ticket, one succeeds; the others do
    /// nothing.
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

    /// Returns the place that a word names, if the word could be a ticket of this table, and the word's generation.
    #[inline]
    fn named(&'static self, ticket: usize) -> Option<(&'static ShelfSlot<T>, usize)> {
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

    fn place(&'static self, number: usize) -> Option<&'static ShelfSlot<T>> {
        let (row, at) = position(number);
        let fresh =
            || (0..FIRST_ROW << row).map(|_| ShelfSlot { generation: AtomicUsize::new(0), thing: T::default() });
        self.rows.get(row)?.get_or_init(|| fresh().collect()).get(at)
    }
}

/// Returns the row of a place, and the index in the row.
#[inline]
fn position(number: usize) -> (usize, usize) {
    let row = (number / FIRST_ROW + 1).ilog2() as usize;
    (row, number - FIRST_ROW * ((1 << row) - 1))
}

/// Locks a mutex, and ignores poisoning: the guarded data is consistent at every moment.
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
