//! Traces in JSON: `{"threads":T,"trace":[[thread,address,size,"r"|"w"],…]}`. Other keys are ignored. The array is fed
//! while it is read, so its length does not matter.

use super::{Feeder, ReplayError};
use serde::de::{DeserializeSeed, Deserializer as _, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::{fmt, io::BufRead};

/// Feeds every access of the trace.
pub(super) fn read(input: impl BufRead, feeder: &mut Feeder) -> Result<(), ReplayError> {
    let mut reader = serde_json::Deserializer::from_reader(input);
    let mut document = Document { feeder, error: None, threads: None, greatest: None };
    let result = reader.deserialize_map(&mut document).and_then(|()| reader.end());
    // A feeder's error ends the reading, and says more than the reader's.
    if let Some(error) = document.error {
        return Err(error);
    }
    result?;
    match (document.greatest, document.threads) {
        (Some(thread), Some(threads)) if thread >= threads => Err(ReplayError::Thread { thread, threads }),
        _ => Ok(()),
    }
}

struct Document<'a> {
    feeder: &'a mut Feeder,
    error: Option<ReplayError>,
    threads: Option<u32>,
    greatest: Option<u32>,
}

impl<'de> Visitor<'de> for &mut Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a key \"trace\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "threads" => self.threads = Some(map.next_value()?),
                "trace" if found => return Err(A::Error::duplicate_field("trace")),
                "trace" => {
                    found = true;
                    map.next_value_seed(Trace(self))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if found { Ok(()) } else { Err(A::Error::missing_field("trace")) }
    }
}

/// The array of accesses.
struct Trace<'a, 'b>(&'a mut Document<'b>);

impl<'de> DeserializeSeed<'de> for Trace<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Trace<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of [thread, address, size, \"r\" or \"w\"]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while let Some((thread, address, size, kind)) = sequence.next_element::<(u32, u64, u32, Kind)>()? {
            self.0.greatest = self.0.greatest.max(Some(thread));
            if let Err(error) = self.0.feeder.access(thread, address, size.into(), matches!(kind, Kind::Store)) {
                self.0.error = Some(error);
                return Err(A::Error::custom("the trace cannot be replayed"));
            }
        }
        Ok(())
    }
}

/// Load or store.
#[derive(serde::Deserialize)]
enum Kind {
    #[serde(rename = "r")]
    Load,
    #[serde(rename = "w")]
    Store,
}
