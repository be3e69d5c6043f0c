//! Round trips, killed writers and damaged files.

use proptest::prelude::*;

use super::record::{put_chunk, put_event, take_record};
use super::*;
use crate::error::Error;
use crate::samples::tiny_trace;
use crate::section::{self, Format, Kind, SectionReader, SectionWriter};

fn any_access() -> impl Strategy<Value = Access> {
    // Steps of every length, odd sizes too: the top bits of a random word, shifted down at random.
    let word = || (any::<u64>(), 0_u32..64).prop_map(|(bits, shift)| bits >> shift);
    (word(), prop_oneof![3 => (0_u32..7).prop_map(|log| 1 << log), 1 => word()], any::<bool>())
        .prop_map(|(address, size, store)| Access { address, size, store })
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<u32>().prop_map(|slot| Event::SlotTaken { slot }),
        any::<u32>().prop_map(|slot| Event::SlotReleased { slot }),
        any::<(u32, u64)>().prop_map(|(slot, thread)| Event::SlotMade { slot, thread }),
        (any::<u8>(), ".{0,20}").prop_map(|(bucket, name)| Event::TagName { bucket, name }),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    prop_oneof![
        3 => (any::<u32>(), any::<u8>(), prop::collection::vec(any_access(), 1..50))
            .prop_map(|(slot, bucket, accesses)| Record::Chunk { slot, bucket, accesses }),
        1 => any_event().prop_map(Record::Event),
    ]
}

/// A trace of these records, flushed after each for which `flush` says so.
fn written(records: &[Record], flush: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for (index, record) in records.iter().enumerate() {
        match record {
            Record::Chunk { slot, bucket, accesses } => writer.chunk(*slot, *bucket, accesses).unwrap(),
            Record::Event(event) => writer.event(event).unwrap(),
        }
        if flush(index) {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap()
}

/// Records up to the first error, and that error.
fn records(bytes: &[u8]) -> (Vec<Record>, Option<Error>) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (vec![], Some(error)),
    };
    let mut records = Vec::new();
    let error = loop {
        match reader.next() {
            Some(Ok(record)) => records.push(record),
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    assert!(reader.next().is_none(), "goes on after its end");
    (records, error)
}

fn sample() -> Vec<Record> {
    let accesses = |from: u64| (0..9).map(|i| Access { address: from + i * 8, size: 8, store: i % 3 == 0 }).collect();
    (0..6_u32)
        .flat_map(|slot| {
            let taken = Record::Event(Event::SlotTaken { slot });
            [taken, Record::Chunk { slot, bucket: 1, accesses: accesses(u64::from(slot) << 40) }]
        })
        .collect()
}

proptest! {
    #[test]
    fn reads_what_it_wrote(all in prop::collection::vec(any_record(), 0..20), flushes: u32) {
        let (read, error) = records(&written(&all, |index| flushes >> index & 1 != 0));
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(read, all);
    }

    #[test]
    fn changed_frames_never_panic(
        mut raw in prop::collection::vec(any::<u8>(), 0..200),
        at: prop::sample::Index, tag in 0_u8..6, len in 0_u8..100, wild: bool,
    ) {
        if !wild {
            raw.clear();
            put_chunk(&mut raw, 3, 1, &[Access { address: 7, size: 3, store: true }; 9]);
            put_event(&mut raw, &Event::TagName { bucket: 1, name: "x".into() });
            let at = at.index(raw.len());
            raw[at] = len;
        } else if raw.len() > 5 {
            raw[..5].copy_from_slice(&[tag, len, 0, 0, 0]);
        }
        let mut rest = &*raw;
        while !rest.is_empty() && take_record(&mut rest).is_ok() {}
    }
}

#[test]
fn a_long_chunk_comes_as_several() {
    let accesses: Vec<_> =
        (0..200_000).map(|i| Access { address: i * i * 977, size: i % 70, store: i % 2 == 0 }).collect();
    let bytes = written(&[Record::Chunk { slot: 5, bucket: 2, accesses: accesses.clone() }], |_| false);
    let (read, error) = records(&bytes);
    assert!(error.is_none(), "{error:?}");
    assert!(read.len() > 1);
    let parts = read.into_iter().flat_map(|record| match record {
        Record::Chunk { slot: 5, bucket: 2, accesses } => accesses,
        other => panic!("{other:?}"),
    });
    assert_eq!(parts.collect::<Vec<_>>(), accesses);
}

/// However long the trace, no frame is longer than the format allows.
#[test]
fn frames_are_bounded() {
    let worst = vec![Access { address: 0, size: u64::MAX, store: true }; 100_000];
    let alternating: Vec<_> =
        worst.iter().enumerate().map(|(i, a)| Access { address: (i as u64 % 2) << 62, ..*a }).collect();
    let bytes = written(&[Record::Chunk { slot: u32::MAX, bucket: 255, accesses: alternating }], |_| false);
    let mut sections = SectionReader::new(&*bytes, &Format::TRACE).unwrap();
    loop {
        let section = sections.next().unwrap();
        assert!(section.header.raw <= 2 << 20, "{} bytes", section.header.raw);
        if section.header.kind == Kind::End as u16 {
            break;
        }
    }
}

#[test]
fn the_header_comes_back() {
    let header = Header { line_sizes: vec![32, 64], max_set_bits: 9, max_ways: 7, ..Header::default() };
    let bytes = Writer::new(Vec::new(), &header).unwrap().finish().unwrap();
    assert_eq!(Reader::new(&*bytes).unwrap().header(), &header);
}

#[test]
fn a_killed_writer_leaves_its_frames() {
    let all = sample();
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    let mut lengths = Vec::new();
    for (index, record) in all.iter().enumerate() {
        match record {
            Record::Chunk { slot, bucket, accesses } => writer.chunk(*slot, *bucket, accesses).unwrap(),
            Record::Event(event) => writer.event(event).unwrap(),
        }
        writer.flush().unwrap();
        lengths.push(written(&all[..=index], |_| true).len() - section::SECTION_HEADER);
    }
    let bytes = writer.finish().unwrap();
    let begin = written(&[], |_| false).len() - section::SECTION_HEADER;
    for len in 1..bytes.len() {
        let (read, error) = records(&bytes[..len]);
        assert!(error.as_ref().is_some_and(Error::is_truncation), "{len} bytes: {error:?}");
        let whole = lengths.iter().take_while(|&&end| end <= len).count();
        assert_eq!(read, all[..if len < begin { 0 } else { whole }], "{len} bytes");
    }
    assert_eq!(records(&bytes).0, all);
}

#[test]
fn every_changed_byte_is_noticed() {
    let all = sample();
    let bytes = written(&all, |_| true);
    for offset in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[offset] ^= 0x41;
        let (read, error) = records(&changed);
        assert!(error.is_some(), "byte {offset} unnoticed");
        assert!(all.starts_with(&read), "byte {offset} changes a record");
    }
}

#[test]
fn unknown_records_and_sections_are_skipped() {
    let event = Event::SlotReleased { slot: 4 };
    let mut frame = vec![200, 3, 0, 0, 0, 1, 2, 3];
    put_event(&mut frame, &event);
    let format = Format { minor: 9, ..Format::TRACE };
    let mut sections = SectionWriter::new(Vec::new(), &format, 1).unwrap();
    let head = |kind, version| section::Header { kind, version, ..section::Header::default() };
    let mut raw = Vec::new();
    crate::wire::encode(&Header::default(), &mut raw);
    raw.extend(b"a field of tomorrow");
    sections.section(head(Kind::TraceHead as u16, 2), &raw).unwrap();
    sections.section(head(1000, 1), b"an index").unwrap();
    sections.section(head(Kind::Records as u16, 1), &frame).unwrap();
    let (read, error) = records(&sections.finish(0).unwrap());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(read, [Record::Event(event)]);
}

#[test]
fn what_is_no_trace_is_refused() {
    let text = |bytes: &[u8]| Reader::new(bytes).unwrap_err().to_string();
    assert_eq!(text(b"r 1234 8\n"), r#"not a bf trace: it begins with "r 1234 8""#);
    assert_eq!(text(&Format::PROFILE.header()), "not a bf trace: it is a bf profile");
    let headless = SectionWriter::new(Vec::new(), &Format::TRACE, 1).unwrap().finish(0).unwrap();
    assert_eq!(text(&headless), "corrupt in section 0 (end mark): the head of the trace should stand here");
    let next = Format { major: 2, ..Format::TRACE };
    let newer = SectionWriter::new(Vec::new(), &next, 1).unwrap().finish(0).unwrap();
    assert_eq!(text(&newer), "written by a newer bf (format 2.0, this one reads 1.x): update bf");
}

#[test]
fn the_sample_says_what_happened() {
    let (read, error) = records(&tiny_trace());
    assert!(error.is_none());
    let access = |address, size, store| Access { address, size, store };
    let accesses = vec![access(0x1000, 8, true), access(0x1040, 12, false), access(0x1008, 4, true)];
    assert_eq!(read[2], Record::Chunk { slot: 0, bucket: 1, accesses });
}
