//! The collector of a table: the synopses of its records' entries, for property 15.

use waxseal_lsm::record::Record;
use waxseal_lsm::seam::Collector;

use crate::beside::{Beside, may_have_entries};
use crate::provider::Providers;
use crate::synopsis::Synopsis;

/// The synopses of a table in the making.
pub(crate) struct Folding {
    providers: Providers,
    folded: Vec<(u16, Synopsis)>,
}

impl Folding {
    pub(crate) fn new(providers: Providers) -> Folding {
        let folded = providers.iter().filter(|(_, provider)| provider.wants().synopsis);
        let folded = folded.map(|(descriptor, _)| (descriptor.id, Synopsis::default())).collect();
        Folding { providers, folded }
    }
}

impl Collector for Folding {
    fn add(&mut self, record: &Record<'_>) {
        if !may_have_entries(record.companion) {
            return;
        }
        let Ok(beside) = Beside::read(record.companion) else { return };
        for entry in beside.entries().map_while(|entry| entry.ok()) {
            if let Some((_, synopsis)) = self.folded.iter_mut().find(|(id, _)| *id == entry.provider)
                && let Some((descriptor, provider)) = self.providers.find(entry.provider)
                && descriptor.version == entry.version
            {
                provider.fold(entry.bytes, synopsis);
            }
        }
    }

    fn finish(&mut self) -> Vec<(u16, Vec<u8>)> {
        let some = self.folded.iter().filter(|(_, synopsis)| synopsis.count > 0);
        some.map(|(id, synopsis)| (*id, synopsis.encode())).collect()
    }
}
