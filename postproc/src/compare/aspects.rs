//! What concerns memory: miss ratios, reuse distances, associativity, write-backs, sharing.

use super::{
    Context, Outcome, SIDES,
    distance::{earth_mover, kolmogorov_smirnov},
    locality::{Locality, NEGLIGIBLE, doublings, lines},
    matching::{self, Pair},
    words::{both, bytes, number, percent},
};
use crate::{
    query::{Query, answerable, query},
    spec::{Cache, Scope, Ways},
};
use bf_profile::Profile;

/// Numbers of ways whose cost is compared.
const WAYS: [u64; 4] = [1, 2, 4, 8];
/// Fewer events of sharing than this part of the references count as none.
const LITTLE_SHARING: f64 = 1e-4;

/// How alike the miss ratios are at matched capacities.
pub(super) fn miss_ratio(context: &Context<'_>) -> Outcome {
    let [a, b] = &context.curves;
    let score = matching::mean(&context.pairs);
    let sizes =
        |a_size, b_size| format!("working sets {} and {}", bytes(context.bytes(a_size)), bytes(context.bytes(b_size)));
    let mut why = format!(
        "at matched capacities ({}) the smaller miss ratio is on average {} of the larger",
        sizes(a.working_set, b.working_set),
        percent(score)
    );
    if let Some(worst) = least_alike(&context.pairs).filter(|worst| worst.alike < 0.995) {
        why += &format!(
            "; least alike with {} for A and {} for B: {}",
            bytes(context.bytes(worst.a)),
            bytes(context.bytes(worst.b)),
            both(|side| percent(context.curves[side].ratio([worst.a, worst.b][side])))
        );
    }
    let (unscaled, scaled) = (matching::mean(&matching::unscaled(a, b)), matching::mean(&matching::scaled(a, b)));
    why +=
        &format!(". At equal capacities {}, at equal parts of the working sets {}", percent(unscaled), percent(scaled));
    Ok((score, why))
}

/// The pair that is least alike.
pub(super) fn least_alike(pairs: &[Pair]) -> Option<&Pair> {
    pairs.iter().min_by(|a, b| a.alike.total_cmp(&b.alike))
}

/// How far re-references are from where they would be if the distributions of distances were the same.
pub(super) fn reuse_distance(context: &Context<'_>) -> Outcome {
    let [a, b] = &context.curves;
    let pairs = &context.pairs;
    let most = pairs.iter().map(|pair| pair.gap).fold(0.0, f64::max);
    // Along the side whose capacities are all different: no step counts twice.
    let larger = |pair: &Pair| if a.working_set > b.working_set { pair.a } else { pair.b };
    let moved: f64 = pairs.iter().map(|pair| pair.gap * doublings(larger(pair))).sum();
    let least = a.least.max(b.least);
    let (of_a, of_b) = (a.distances(least), b.distances(least));
    let unscaled = (kolmogorov_smirnov(&of_a, &of_b), earth_mover(&of_a, &of_b, |cell| doublings(least + cell)));
    let why = format!(
        "Kolmogorov-Smirnov distance {}: at no matched capacity do more than {} of the re-references fall on the other \
         side of it; earth mover's distance {}: on average a re-reference is {} doublings of its distance away from where \
         the other program has it. Without matching {} and {}",
        number(most),
        percent(most),
        number(moved),
        number(moved),
        number(unscaled.0),
        number(unscaled.1)
    );
    Ok((1.0 - most, why))
}

/// What few ways cost, on average over the capacities up to the working set, in doublings of the miss ratio.
fn cost(context: &Context<'_>, side: usize, ways: u64) -> Option<f64> {
    let curve = &context.curves[side];
    // Whole powers of two, with two sets or more.
    let sizes = (0..curve.working_set).step_by(2).filter(|&size| lines(size) >= 2 * ways && size >= curve.least);
    let cost = |size| {
        let few = ratio(context.profiles[side], curve, set_associative(context, size, ways), context.tags)?;
        Some(((few + NEGLIGIBLE) / (curve.ratio(size) + NEGLIGIBLE)).log2())
    };
    let costs: Vec<f64> = sizes.filter_map(cost).collect();
    (!costs.is_empty()).then(|| costs.iter().sum::<f64>() / costs.len() as f64)
}

fn set_associative(context: &Context<'_>, size: usize, ways: u64) -> Cache {
    Cache {
        name: "A".to_owned(),
        size: context.bytes(size),
        ways: Ways::Number(ways),
        line: Some(context.line),
        scope: Scope::Private,
        hashed: false,
        exclusive: false,
    }
}

/// The miss ratio of a cache, without what every cache misses.
fn ratio(profile: &Profile, curve: &Locality, cache: Cache, tags: &[String]) -> Option<f64> {
    let levels = answerable(profile, &[cache]).0;
    let answer = query(profile, &Query { levels, tags: tags.to_vec(), ..Query::default() }).ok()?;
    let misses = answer.levels.first()?.misses.saturating_sub(curve.unavoidable);
    Some(misses as f64 / curve.references.saturating_sub(curve.unavoidable).max(1) as f64)
}

/// How alike the price of few ways is.
pub(super) fn associativity(context: &Context<'_>) -> Outcome {
    // Of a sample only larger caches are known, and the price differs with the size.
    if let Some(side) = (0..2).find(|&side| context.curves[side].least > 0) {
        return Err(format!("{} is a sample, which does not tell of small caches with few ways", SIDES[side]));
    }
    let costs: Vec<_> =
        WAYS.into_iter().filter_map(|ways| Some((ways, [cost(context, 0, ways)?, cost(context, 1, ways)?]))).collect();
    let (Some((few, of_few)), Some((many, of_many))) = (costs.first(), costs.last()) else {
        return Err("the working sets are too small for it to matter".to_owned());
    };
    let score = costs.iter().map(|(_, [a, b])| (-(a - b).abs()).exp2()).sum::<f64>() / costs.len() as f64;
    // Without the sign of a zero.
    let more = |cost: f64| format!("{:+.0} %", ((cost.exp2() - 1.0) * 100.0).round() + 0.0);
    let says = |ways: &u64, costs: &[f64; 2]| {
        format!("{ways} way{}: {}", if *ways == 1 { "" } else { "s" }, both(|side| more(costs[side])))
    };
    Ok((score, format!("misses against a fully associative cache: {}; {}", says(few, of_few), says(many, of_many))))
}

/// How alike the part of the lines brought in is that is written back.
pub(super) fn write_backs(context: &Context<'_>) -> Outcome {
    let [a, b] = &context.curves;
    for (name, curve) in SIDES.into_iter().zip([a, b]) {
        let brought = curve.working_set > curve.least;
        if brought && curve.written_back.iter().all(Option::is_none) {
            return Err(format!(
                "private caches of several threads pass dirty lines on, so {name} has no write-backs of its own"
            ));
        }
    }
    let of_pair = |pair: &Pair| Some([(*a.written_back.get(pair.a)?)?, (*b.written_back.get(pair.b)?)?]);
    let parts: Vec<[f64; 2]> = context.pairs.iter().filter_map(of_pair).collect();
    if parts.is_empty() {
        return Err("nothing is brought in after the first references".to_owned());
    }
    let mean = |figure: &dyn Fn(&[f64; 2]) -> f64| parts.iter().map(figure).sum::<f64>() / parts.len() as f64;
    let why = format!(
        "of the lines brought in at matched capacities are written back on average {}",
        both(|side| percent(mean(&|part| part[side])))
    );
    Ok((1.0 - mean(&|[a, b]| (a - b).abs()), why))
}

/// How alike what threads take from each other is.
pub(super) fn sharing(context: &Context<'_>) -> Outcome {
    let boundless = Cache { ways: Ways::Full, size: 1 << 62, ..set_associative(context, 0, 1) };
    let mut figures = Vec::new();
    for (side, profile) in context.profiles.into_iter().enumerate() {
        let question = Query { levels: vec![boundless.clone()], tags: context.tags.to_vec(), ..Query::default() };
        let level = query(profile, &question).ok().and_then(|mut answer| answer.levels.pop());
        figures.push(level.and_then(|level| {
            let part = |count: u64| count as f64 / context.curves[side].references as f64;
            Some([part(level.coherence?), part(level.dirty_transfers?)])
        }));
    }
    let [Some(a), Some(b)] = figures[..] else {
        let several = |side: usize| context.profiles[side].processes.iter().any(|process| process.meta.threads > 1);
        let silent = |side: usize| match several(side) {
            true => format!("{} does not tell what its threads share: record it without sampling", SIDES[side]),
            false => format!("{} ran with one thread", SIDES[side]),
        };
        let named: Vec<_> = (0..2).filter(|&side| figures[side].is_none()).map(silent).collect();
        return Err(if several(0) || several(1) { named.join(", ") } else { "each ran with one thread".to_owned() });
    };
    let alike = |a: f64, b: f64| (a.min(b) + LITTLE_SHARING) / (a.max(b) + LITTLE_SHARING);
    let why = format!(
        "lines taken away by other threads and missed: {} of all references; dirty lines passed on: {}",
        both(|side| percent([a, b][side][0])),
        both(|side| percent([a, b][side][1]))
    );
    Ok((f64::midpoint(alike(a[0], b[0]), alike(a[1], b[1])), why))
}

/// Never compared.
pub(super) fn reuse_time() -> Outcome {
    Err("a profile holds how many other lines lie between two references to a line, not how many references; see reuse \
         distance"
        .to_owned())
}
