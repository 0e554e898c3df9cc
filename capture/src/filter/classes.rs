//! Equivalence classes of a field's values: values that no program can tell apart.

use super::analysis::Predicate;
use super::bpf::Test;
use std::collections::{BTreeSet, HashMap};

/// The class of each value of a field. Class 0 is for packets that do not have the field.
#[derive(Debug)]
pub enum Classes {
    /// By value, in pages: most of a port's pages are the same one, of ephemeral ports, so all fit into the processor's
    /// first-level cache. Values past the last page belong to the last value's class.
    Paged {
        /// The page of each 64 values.
        index: Box<[u16; PAGES]>,
        /// The classes of 64 values.
        pages: Box<[[u16; PAGE]]>,
        /// One more than the highest class.
        count: u64,
    },
    /// The first value of each class but the first, ascending.
    Ranges(Box<[u32]>),
}

/// Maximum number of classes of a two-octet field: predicates that would exceed it are left out.
const MAX_CLASSES: usize = 4096;
/// Values per page.
const PAGE: usize = 64;
/// Pages of a field of two octets.
const PAGES: usize = (1 << 16) / PAGE;

impl Classes {
    /// The classes of a field of `size` octets that distinguish `predicates`, and the predicates they do distinguish:
    /// all, except that in a four-octet field a predicate must hold in a single range of values.
    pub fn new(size: u8, predicates: &BTreeSet<Predicate>) -> (Classes, BTreeSet<Predicate>) {
        if size == 4 { Classes::of_ranges(predicates) } else { Classes::of_values(size, predicates) }
    }

    fn of_ranges(predicates: &BTreeSet<Predicate>) -> (Classes, BTreeSet<Predicate>) {
        let mut starts = BTreeSet::new();
        let mut kept = BTreeSet::new();
        for &predicate in predicates {
            if let Some(bounds) = bounds(4, predicate) {
                starts.extend(bounds.into_iter().flatten());
                kept.insert(predicate);
            }
        }
        let ranges = Classes::Ranges(starts.iter().copied().filter(|&start| start > 0).collect());
        // Lengths are small numbers.
        let classes = if starts.last().is_none_or(|&last| last <= 0xffff) {
            let classes: Vec<u16> = (0..=0xffff).map(|value| ranges.of(value) as u16).collect();
            Classes::paged(&classes, ranges.count())
        } else {
            ranges
        };
        (classes, kept)
    }

    fn of_values(size: u8, predicates: &BTreeSet<Predicate>) -> (Classes, BTreeSet<Predicate>) {
        let values = 1 << (8 * size);
        // Each predicate is constant from one of these values to the next.
        let bounds: Option<Vec<_>> = predicates.iter().map(|&predicate| bounds(size, predicate)).collect();
        let starts: BTreeSet<u32> = match bounds {
            Some(bounds) => {
                bounds.iter().flatten().flatten().copied().chain([0]).filter(|&start| start < values).collect()
            }
            None => (0..values).collect(),
        };
        let mut classes = vec![1_u16; starts.len()];
        let mut count = 1;
        let mut kept = BTreeSet::new();
        for &predicate in predicates {
            // By class, its new class for values for which the predicate does not hold, and holds.
            let mut split = vec![[0_u16; 2]; count + 1];
            let mut next = 0;
            let mut refined = Vec::with_capacity(classes.len());
            for (&class, &value) in classes.iter().zip(&starts) {
                let class = &mut split[usize::from(class)][usize::from(predicate.holds(value))];
                if *class == 0 {
                    next += 1;
                    *class = next;
                }
                refined.push(*class);
            }
            if usize::from(next) <= MAX_CLASSES {
                classes = refined;
                count = usize::from(next);
                kept.insert(predicate);
            }
        }
        let ends = starts.iter().skip(1).copied().chain([values]);
        let by_value: Vec<u16> = classes
            .iter()
            .zip(starts.iter().zip(ends))
            .flat_map(|(&class, (&start, end))| std::iter::repeat_n(class, (end - start) as usize))
            .collect();
        (Classes::paged(&by_value, count as u64 + 1), kept)
    }

    fn paged(classes: &[u16], count: u64) -> Classes {
        let mut numbers = HashMap::new();
        let mut pages = Vec::new();
        let mut index = Box::new([0; PAGES]);
        // A field of one octet has no values on further pages.
        let whole = classes.chunks_exact(PAGE).filter_map(|page| page.first_chunk::<PAGE>());
        for (entry, page) in index.iter_mut().zip(whole) {
            *entry = *numbers.entry(page).or_insert_with(|| {
                pages.push(*page);
                (pages.len() - 1) as u16
            });
        }
        Classes::Paged { index, pages: pages.into(), count }
    }

    #[inline]
    pub fn of(&self, value: u32) -> u64 {
        match self {
            Classes::Paged { index, pages, .. } => {
                let value = value.min(0xffff) as usize;
                u64::from(pages[usize::from(index[value / PAGE])][value % PAGE])
            }
            Classes::Ranges(starts) => starts.partition_point(|&start| start <= value) as u64 + 1,
        }
    }

    /// One more than the highest class.
    pub fn count(&self) -> u64 {
        match self {
            Classes::Paged { count, .. } => *count,
            Classes::Ranges(starts) => starts.len() as u64 + 2,
        }
    }
}

/// The first and last value for which a predicate of a field of `size` octets holds; `None` if it may hold in several
/// ranges.
fn bounds(size: u8, predicate: Predicate) -> Option<[Option<u32>; 2]> {
    let Predicate { shift, mask, test, operand } = predicate;
    let width = 8 * u32::from(size);
    let field = u32::MAX >> (32 - width);
    let bits = u32::try_from(u64::from(mask) << shift & u64::from(field)).ok()?;
    let bits = if test == Test::AnyBit { bits & operand.checked_shl(u32::from(shift))? } else { bits };
    if bits == 0 {
        // Always the same.
        return Some([None, None]);
    }
    let low = bits.trailing_zeros();
    // The highest bits of the field, without a gap.
    if bits != field >> low << low {
        return None;
    }
    // From now on the value counts in units of 1 << low, and so does the operand, rounded up.
    let operand = u64::from(operand) << shift;
    let unit = 1_u64 << low;
    let bound = |value: u64| u32::try_from(value).ok();
    Some(match test {
        Test::Equal if operand % unit == 0 => [bound(operand), bound(operand + unit)],
        Test::Equal => [None, None],
        Test::AtLeast => [bound(operand.div_ceil(unit) * unit), None],
        Test::Greater => [bound((operand / unit + 1) * unit), None],
        Test::AnyBit => [bound(unit), None],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn predicates() -> impl Strategy<Value = BTreeSet<Predicate>> {
        let test = prop_oneof![Just(Test::Equal), Just(Test::Greater), Just(Test::AtLeast), Just(Test::AnyBit)];
        let mask = prop_oneof![
            Just(u32::MAX),
            (0..33_u32).prop_map(|bits| u32::MAX.checked_shl(bits).unwrap_or(0)),
            any::<u32>(),
            any::<u8>().prop_map(u32::from),
        ];
        let operand = prop_oneof![any::<u32>(), any::<u16>().prop_map(u32::from), any::<u8>().prop_map(u32::from)];
        let shift = prop_oneof![Just(0), 0..32_u8];
        prop::collection::btree_set(
            (shift, mask, test, operand).prop_map(|(shift, mask, test, operand)| Predicate {
                shift,
                mask: mask & (u32::MAX >> shift),
                test,
                operand,
            }),
            1..12,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn values_of_one_class_cannot_be_told_apart(
            size in prop_oneof![Just(1_u8), Just(2), Just(4)],
            predicates in predicates(),
            values in prop::collection::vec(any::<u32>(), 60),
        ) {
            let (classes, kept) = Classes::new(size, &predicates);
            prop_assert!(size == 4 || kept == predicates);
            let mut first = HashMap::new();
            let near = kept.iter().flat_map(|p| [-1, 0, 1].map(|by| (p.operand << p.shift).wrapping_add_signed(by)));
            for value in values.iter().copied().chain(near).chain([0, u32::MAX]) {
                let value = if size == 4 { value } else { value & (u32::MAX >> (32 - 8 * u32::from(size))) };
                let verdicts: Vec<bool> = kept.iter().map(|predicate| predicate.holds(value)).collect();
                let class = classes.of(value);
                prop_assert!(class > 0 && class < classes.count());
                prop_assert_eq!(first.entry(class).or_insert_with(|| verdicts.clone()), &verdicts, "{}", value);
            }
        }
    }

    #[test]
    fn ephemeral_ports_cost_no_table() {
        let port = |operand| Predicate { shift: 0, mask: 0xffff, test: Test::Equal, operand };
        let (classes, _) = Classes::new(2, &[22, 80, 443].map(port).into_iter().collect());
        assert_eq!(classes.count(), 5);
        let Classes::Paged { pages, .. } = &classes else { panic!("{classes:?}") };
        assert_eq!(pages.len(), 4);
        assert_eq!(classes.of(21), classes.of(50_000));
        assert_ne!(classes.of(22), classes.of(80));
    }
}
