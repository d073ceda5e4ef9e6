//! Volumes as callers write and read them.

/// Whether everybody may read a volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rights {
    /// Everybody may read the volume.
    PublicDomain,
    /// Only readers of [`Access::All`](crate::Access::All) may read the volume.
    InCopyright,
}

impl Rights {
    /// Returns the name in the tables: `public` or `in-copyright`.
    pub fn name(self) -> &'static str {
        match self {
            Rights::PublicDomain => "public",
            Rights::InCopyright => "in-copyright",
        }
    }

    /// Parses the rights of a source: `public`, `public domain`, `pd` and HathiTrust's `pdus`, in any case. Any other
    /// text is in copyright, so that a mistake in a source opens nothing.
    pub fn parse(text: &str) -> Rights {
        let text = text.trim().to_ascii_lowercase();
        match ["public", "public domain", "public-domain", "pd", "pdus"].contains(&text.as_str()) {
            true => Rights::PublicDomain,
            false => Rights::InCopyright,
        }
    }
}

/// What is known of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Id of the volume, as in `iu.30000099847570`.
    pub id: String,
    /// Title.
    pub title: Option<String>,
    /// Name of the author.
    pub author: Option<String>,
    /// Date of publication as the source has it: `1905`, `c1905`, `2009-05-01`.
    pub publish_date: Option<String>,
    /// Genre. Queries by genre find no volume without one.
    pub genre: Option<String>,
    /// Who may read the volume.
    pub rights: Rights,
    /// Number of pages. [`Corpus::add`](crate::Corpus::add) sets it.
    pub page_count: u32,
}

impl Metadata {
    /// Returns the metadata of a volume in copyright, of which nothing else is known.
    pub fn new(id: impl Into<String>) -> Metadata {
        Metadata {
            id: id.into(),
            title: None,
            author: None,
            publish_date: None,
            genre: None,
            rights: Rights::InCopyright,
            page_count: 0,
        }
    }

    /// Returns the year of publication, if the date has one.
    pub fn year(&self) -> Option<i32> {
        year_of(self.publish_date.as_deref()?)
    }
}

/// A volume: metadata and text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Volume {
    /// What is known of the volume.
    pub metadata: Metadata,
    /// Text of the pages, the first page first.
    pub pages: Vec<String>,
    /// The zip file with the whole volume, if the source had one.
    pub archive: Option<Vec<u8>>,
}

/// Returns the first number of four digits in a date.
pub(crate) fn year_of(date: &str) -> Option<i32> {
    let runs = date.split(|char: char| !char.is_ascii_digit());
    runs.filter(|run| run.len() == 4).find_map(|run| run.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_is_the_first_number_of_four_digits() {
        let years = ["2009", "c1905.", "[1890?]", "5 May 2009", "2009-05-01", "18900", "n.d.", ""].map(year_of);
        assert_eq!(years, [Some(2009), Some(1905), Some(1890), Some(2009), Some(2009), None, None, None]);
    }

    #[test]
    fn unknown_rights_open_nothing() {
        assert_eq!(["pd", " Public ", "PDUS"].map(Rights::parse), [Rights::PublicDomain; 3]);
        assert_eq!(["", "ic", "publicly loved", "und"].map(Rights::parse), [Rights::InCopyright; 4]);
    }
}
