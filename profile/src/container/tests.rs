//! Round trips, paths, and what the writer does with a great many stacks.

use proptest::prelude::*;

use super::*;
use crate::model::{LineData, Process, Profile};
use crate::samples::{any_profile, lines, rich, tiny};

/// The bytes of a profile.
pub(super) fn bytes(profile: &Profile) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(profile, &mut bytes).unwrap();
    bytes
}

#[test]
fn samples_are_sound() {
    tiny().validate().unwrap();
    rich().validate().unwrap();
}

#[test]
fn reads_what_it_wrote() {
    for profile in [Profile::default(), tiny(), rich()] {
        assert_eq!(read(&*bytes(&profile)).unwrap(), profile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reads_what_it_wrote_whatever_it_is(profile in any_profile()) {
        profile.validate().unwrap();
        prop_assert_eq!(read(&*bytes(&profile)).unwrap(), profile);
    }
}
