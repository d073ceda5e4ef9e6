//! A generated collection with the counts of the paper's Indiana University collection.
//!
//! The paper has counts of volumes, of hits of four queries, and of bytes. The pages of a volume are an assumption: 320
//! at scale 1. The number of pages and the length of a page shrink with the square root of the scale, so that both the
//! cost of a page and the cost of a byte stay in the measurement.

use std::thread;

use waxseal_bench::Outcome;
use waxseal_bench::workload::Random;
use waxseal_corpus::{Corpus, Metadata, Rights, Volume};

/// Number of volumes.
pub(super) const VOLUMES: u64 = 28_896;

/// Number of volumes below [`LEAST_SCALE`], where an experiment is only tried out.
const FEW: u64 = 1_000;
const LEAST_SCALE: f64 = 0.0001;

/// Mean bytes of a volume at scale 1: the paper's 56.4 GB over its volumes.
pub(super) const VOLUME_BYTES: f64 = 1_950_000.0;

/// Hits of the queries of workload 5.
pub(super) const BY_EDWARD: u64 = 399;
pub(super) const OF_THE_SEVENTIES: u64 = 394;
pub(super) const ABOUT_SCIENCE: u64 = 535;
pub(super) const ABOUT_ART: u64 = 222;

/// The genre of query case 2. The paper does not count its volumes.
pub(super) const SCIENCE_AND_TECHNOLOGY: &str = "Science & Technology";

/// Pages of a volume at scale 1.
const PAGES: f64 = 320.0;

/// Share of the bytes of a volume that its zip file has; the rest is text.
const ARCHIVE_SHARE: f64 = 0.25;

/// Bytes from which texts and zip files are cut.
const POOL_BYTES: usize = 1 << 20;

/// Genres of equal numbers of volumes. One volume in ten has none.
const GENRES: [Option<&str>; 10] = [
    Some(SCIENCE_AND_TECHNOLOGY),
    Some("Fiction"),
    Some("Poetry"),
    Some("Drama"),
    Some("Biography"),
    Some("History"),
    Some("Religion"),
    Some("Law"),
    Some("Travel"),
    None,
];
const SUBJECTS: [&str; 8] = ["Nature", "Commerce", "War", "Music", "Medicine", "Navigation", "Farming", "Language"];
const NAMES: [&str; 8] = ["John", "Mary", "William", "Emily", "George", "Anna", "Thomas", "Edwin"];
const SURNAMES: [&str; 8] = ["Gibbon", "Shelley", "Irving", "Bronte", "Eliot", "Sewell", "Hardy", "Abbott"];

/// Volumes that depend on the scale, the seed and their number alone. Usable from any thread.
pub(super) struct Collection {
    volumes: u64,
    seed: u64,
    pages: usize,
    page_bytes: usize,
    archive_bytes: usize,
    text: String,
    archive: Vec<u8>,
}

impl Collection {
    pub(super) fn new(volumes: u64, scale: f64, seed: u64) -> Collection {
        let bytes = VOLUME_BYTES * scale;
        let pages = (PAGES * scale.sqrt()).ceil().max(1.0);
        let page_bytes = (bytes * (1.0 - ARCHIVE_SHARE) / pages).ceil() as usize;
        let archive_bytes = (bytes * ARCHIVE_SHARE).ceil() as usize;
        let mut random = Random::stream(seed, 0);
        let mut text = String::new();
        while text.len() < POOL_BYTES + page_bytes {
            for _ in 0..1 + random.below(9) {
                text.push((b'a' + random.below(26) as u8) as char);
            }
            text.push(' ');
        }
        let archive = std::iter::repeat_with(|| random.word().to_le_bytes()).flatten();
        let archive = archive.take(POOL_BYTES + archive_bytes).collect();
        Collection { volumes, seed, pages: pages as usize, page_bytes, archive_bytes, text, archive }
    }

    /// Returns the bytes of a volume's pages and zip file.
    pub(super) fn volume_bytes(&self) -> usize {
        self.pages * self.page_bytes + self.archive_bytes
    }

    pub(super) fn volumes(&self) -> u64 {
        self.volumes
    }

    /// Returns the bytes of all volumes.
    pub(super) fn bytes(&self) -> u64 {
        self.volumes * self.volume_bytes() as u64
    }

    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the volume of a number below [`volumes`](Collection::volumes).
    pub(super) fn volume(&self, number: u64) -> Volume {
        let mut random = self.random(number);
        let pages = (0..self.pages).map(|_| self.page(&mut random).to_owned()).collect();
        let at = random.below(POOL_BYTES as u64) as usize;
        let archive = self.archive[at..at + self.archive_bytes].to_vec();
        Volume { metadata: self.metadata(number), pages, archive: Some(archive) }
    }

    /// Returns the first page of a volume.
    pub(super) fn first_page(&self, number: u64) -> &str {
        self.page(&mut self.random(number))
    }

    fn random(&self, number: u64) -> Random {
        Random::stream(self.seed, 1 + number)
    }

    fn page(&self, random: &mut Random) -> &str {
        let at = random.below(POOL_BYTES as u64) as usize;
        &self.text[at..at + self.page_bytes]
    }

    fn metadata(&self, number: u64) -> Metadata {
        let rank = |property| rank(number, property, self.volumes);
        let pick = |of: [&'static str; 8], property| of[rank(property) as usize % of.len()];
        let subject = match rank(0) {
            rank if rank < ABOUT_SCIENCE => "Science",
            rank if rank < ABOUT_SCIENCE + ABOUT_ART => "Art",
            _ => pick(SUBJECTS, 1),
        };
        let name = if rank(2) < BY_EDWARD { "Edward" } else { pick(NAMES, 3) };
        let year = match rank(4) {
            rank if rank < OF_THE_SEVENTIES => 1970 + rank % 10,
            rank if rank % 140 < 110 => 1860 + rank % 140,
            rank => 1870 + rank % 140, // 1980 to 2009
        };
        Metadata {
            title: Some(format!("Of {subject}, volume {number}")),
            author: Some(format!("{}, {name}", pick(SURNAMES, 5))),
            publish_date: Some(year.to_string()),
            genre: GENRES[rank(6) as usize % GENRES.len()].map(str::to_owned),
            rights: if rank(7).is_multiple_of(4) { Rights::InCopyright } else { Rights::PublicDomain },
            ..Metadata::new(id(number))
        }
    }

    /// Adds all volumes to a corpus, with a thread for each core.
    pub(super) fn add_to(&self, corpus: &Corpus) -> Outcome<()> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let add = |first: usize| {
                (first as u64..self.volumes).step_by(threads).try_for_each(|n| corpus.add(&self.volume(n)))
            };
            let adding: Vec<_> = (0..threads).map(|first| scope.spawn(move || add(first))).collect();
            for thread in adding {
                thread.join().map_err(|_| "a thread that adds volumes failed")??;
            }
            Ok(())
        })
    }
}

/// The number in the first id: the paper's ids have fourteen digits.
const FIRST_ID: u64 = 30_000_000_000_000;

/// Returns the id of a volume, in the paper's form.
pub(super) fn id(number: u64) -> String {
    format!("iu.{}", FIRST_ID + number)
}

/// Returns the number of the volume of an id.
pub(super) fn number(id: &str) -> Option<u64> {
    id.strip_prefix("iu.")?.parse::<u64>().ok()?.checked_sub(FIRST_ID)
}

/// Returns the number of volumes at a scale: the paper's, from 0.0001 on.
pub(super) fn volumes(scale: f64) -> u64 {
    if scale < LEAST_SCALE { FEW } else { VOLUMES }
}

/// Draws distinct items; all of them if there are fewer.
pub(super) fn draw(random: &mut Random, from: &[u64], count: usize) -> Vec<u64> {
    let mut items = from.to_vec();
    for at in 0..count.min(items.len()) {
        let other = at + random.below((items.len() - at) as u64) as usize;
        items.swap(at, other);
    }
    items.truncate(count);
    items
}

/// Returns the place of a volume in an order of its own for each property: a permutation of the numbers, so that the
/// first n places are exactly n volumes.
fn rank(number: u64, property: usize, volumes: u64) -> u64 {
    // Primes that divide no number of volumes.
    const FACTORS: [u64; 8] = [10_007, 7_919, 12_553, 9_973, 11_003, 6_007, 8_009, 5_003];
    number * FACTORS[property] % volumes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_the_bytes_of_its_scale() {
        for scale in [0.0001, 0.01, 1.0] {
            let collection = Collection::new(VOLUMES, scale, 7);
            let volume = collection.volume(5);
            let bytes = volume.pages.iter().map(String::len).sum::<usize>() + volume.archive.as_ref().unwrap().len();
            assert_eq!(bytes, collection.volume_bytes());
            let wanted = VOLUME_BYTES * scale;
            assert!((bytes as f64 - wanted).abs() <= 1.0 + volume.pages.len() as f64, "{bytes} of {wanted}");
            assert_eq!(collection.volume(5), volume);
            assert_eq!(collection.first_page(5), volume.pages[0]);
            assert_ne!(collection.volume(6).pages, volume.pages);
        }
    }

    #[test]
    fn ranks_are_permutations() {
        for (volumes, property) in
            [FEW, VOLUMES, 8_874, 256_451].into_iter().flat_map(|of| (0..8).map(move |at| (of, at)))
        {
            let mut ranks: Vec<u64> = (0..volumes).map(|number| rank(number, property, volumes)).collect();
            ranks.sort_unstable();
            assert!(ranks.into_iter().eq(0..volumes), "{property} of {volumes}");
        }
    }

    #[test]
    fn distinct_items_are_drawn() {
        let mut random = Random::new(3);
        let all: Vec<u64> = (0..100).collect();
        let mut drawn = draw(&mut random, &all, 60);
        assert_ne!(drawn, all[..60]);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!((drawn.len(), draw(&mut random, &all, 200).len()), (60, 100));
        assert_eq!(number(&id(17)), Some(17));
    }
}
