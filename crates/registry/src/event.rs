//! Events: the rows of the log. docs/format.md, section 9.6.
//!
//! The key holds target, operation, time, session and commit; the value is a level and the payload.

use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, ErrorKind, Result};

use crate::key::LogKey;
use crate::payload::Payload;

/// The format level of a row's value.
pub(crate) const LEVEL: u8 = 1;

/// An event of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The key of its row in the log.
    pub key: LogKey,
    /// Further details.
    pub payload: Payload,
}

impl Event {
    /// Encodes key and value of the row. Errors: `Invalid` beyond the limits of either.
    pub fn encode(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut value = vec![LEVEL];
        self.payload.encode(&mut value)?;
        Ok((self.key.encode()?, value))
    }

    /// Decodes a row. Fails with `Corruption` for malformed bytes, and with `FormatTooNew` for a later level.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Event> {
        let mut reader = Reader::new(value);
        check_level(reader.u8()?, LEVEL)?;
        Ok(Event { key: LogKey::decode(key)?, payload: Payload::decode(&mut reader)? })
    }
}

fn check_level(found: u8, known: u8) -> Result<()> {
    match found {
        0 => Err(Error::structural("a row of level 0")),
        level if level > known => {
            Err(Error::of(ErrorKind::FormatTooNew, format!("a row of level {level}; this store knows {known}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Time;
    use crate::operation::Operation;
    use crate::payload::testing::payload;
    use crate::target::testing::{john, target};
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = Event> {
        (target(), payload(), any::<u64>()).prop_map(|(target, payload, time)| {
            let (operation, client) = (Operation::ROW_UPDATE, "admin".to_owned());
            Event { key: LogKey { target, operation, time: Time(time), client, seqno: 7 }, payload }
        })
    }

    #[test]
    fn a_row_of_another_level_is_refused() {
        let key = LogKey {
            target: john(),
            operation: Operation::ROW_UPDATE,
            time: Time(1),
            client: "admin".to_owned(),
            seqno: 7,
        };
        let (key, mut value) = Event { key, payload: Payload::text("x") }.encode().unwrap();
        assert_eq!(value, b"\x01\x01\x01x");
        value[0] = 2;
        assert_eq!(*Event::decode(&key, &value).unwrap_err().kind(), ErrorKind::FormatTooNew);
        value[0] = 0;
        assert!(Event::decode(&key, &value).unwrap_err().is_corruption());
    }

    proptest! {
        #[test]
        fn events_come_back(event in event()) {
            let (key, value) = event.encode().unwrap();
            prop_assert_eq!(Event::decode(&key, &value).unwrap(), event);
        }

        #[test]
        fn any_row_is_an_event_or_refused(event in event(), at: prop::sample::Index, flip: u8) {
            let (key, mut value) = event.encode().unwrap();
            let at = at.index(value.len());
            value[at] ^= flip;
            if let Ok(event) = Event::decode(&key, &value) {
                let (key, value) = event.encode().unwrap();
                prop_assert_eq!(Event::decode(&key, &value).unwrap(), event);
            }
        }
    }
}
