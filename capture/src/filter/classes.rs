//! Equivalence classes of a field's values: values that no program can tell apart.

use super::analysis::Predicate;
use super::bpf::Test;
use std::collections::{BTreeSet, HashMap};

/// The class of each value of a field. Class 0 is for packets that do not have the field.
#[derive(Debug)]
pub enum Classes {
    /// Up to two octets: by value; what lies past the end is of the last class.
    Table(Box<[u8]>, u8),
    /// The same where there are more than 255 classes.
    WideTable(Box<[u16]>, u16),
    /// Four octets: the first value of each class but the first, ascending.
    Ranges(Box<[u32]>),
}

/// Classes of a field of two octets at most: some would have to be left out beyond.
const MAX_CLASSES: usize = 4096;

impl Classes {
    /// The classes that tell apart what `predicates` do, of a field of `size` octets, and the predicates that it
    /// does tell apart: all, but of four octets those only which hold in one range of values.
    pub fn new(size: u8, predicates: &BTreeSet<Predicate>) -> (Classes, BTreeSet<Predicate>) {
        if size == 4 {
            let mut starts = BTreeSet::new();
            let mut kept = BTreeSet::new();
            for &predicate in predicates {
                if let Some(bounds) = bounds(predicate) {
                    starts.extend(bounds.into_iter().flatten());
                    kept.insert(predicate);
                }
            }
            return (Classes::Ranges(starts.into_iter().filter(|&start| start > 0).collect()), kept);
        }
        let mut classes = vec![1_u16; 1 << (8 * size)];
        let mut count = 1;
        let mut kept = BTreeSet::new();
        for &predicate in predicates {
            let mut split = HashMap::new();
            let mut next = 0_u16;
            let refined: Vec<u16> = classes
                .iter()
                .zip(0..)
                .map(|(&class, value)| {
                    *split.entry((class, predicate.holds(value))).or_insert_with(|| {
                        next += 1;
                        next
                    })
                })
                .collect();
            if usize::from(next) <= MAX_CLASSES {
                classes = refined;
                count = next;
                kept.insert(predicate);
            }
        }
        let last = classes[classes.len() - 1];
        // Most ports are ephemeral ones, of the last class: their part of the table need not be in any cache.
        while classes.last() == Some(&last) {
            classes.pop();
        }
        let table = match u8::try_from(count) {
            Ok(_) => Classes::Table(classes.iter().map(|&class| class as u8).collect(), last as u8),
            Err(_) => Classes::WideTable(classes.into(), last),
        };
        (table, kept)
    }

    /// The class of a value.
    pub fn of(&self, value: u32) -> u64 {
        match self {
            Classes::Table(classes, last) => u64::from(*classes.get(value as usize).unwrap_or(last)),
            Classes::WideTable(classes, last) => u64::from(*classes.get(value as usize).unwrap_or(last)),
            Classes::Ranges(starts) => starts.partition_point(|&start| start <= value) as u64 + 1,
        }
    }

    /// One more than the highest class.
    pub fn count(&self) -> u64 {
        match self {
            Classes::Table(classes, last) => u64::from(*classes.iter().max().unwrap_or(last).max(last)) + 1,
            Classes::WideTable(classes, last) => u64::from(*classes.iter().max().unwrap_or(last).max(last)) + 1,
            Classes::Ranges(starts) => starts.len() as u64 + 2,
        }
    }
}

/// Where a predicate of a field of four octets begins and ceases to hold; `None` where it does so more than once.
fn bounds(predicate: Predicate) -> Option<[Option<u32>; 2]> {
    let Predicate { shift, mask, test, operand } = predicate;
    let bits = u32::try_from(u64::from(mask) << shift & u64::from(u32::MAX)).ok()?;
    let bits = if test == Test::AnyBit { bits & operand.checked_shl(u32::from(shift))? } else { bits };
    if bits == 0 {
        // Always the same.
        return Some([None, None]);
    }
    let low = bits.trailing_zeros();
    if bits.leading_ones() + low != 32 {
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
        let Classes::Table(table, last) = &classes else { panic!("{classes:?}") };
        assert_eq!(table.len(), 444);
        assert_eq!([21, 50_000].map(|value| classes.of(value)), [u64::from(*last); 2]);
        assert_ne!(classes.of(22), classes.of(80));
    }
}
