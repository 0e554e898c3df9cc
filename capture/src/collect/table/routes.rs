//! The routes of a table's flows, each once. Most records state one in the same octets as an earlier record: those are
//! recognised without being read again.

use super::indexed::Indexed;
use crate::collect::element::routed::{RawRoute, Route, Routed};
use foldhash::fast::RandomState;
use std::hash::BuildHasher as _;

/// Number of remembered routes by their octets: half a megabyte.
const SEEN: usize = 1 << 12;
/// The index of octets that are all zero.
const NO_ROUTE: u32 = u32::MAX;

/// Octets, and the index of the route that they state.
#[derive(Clone, Copy, Default)]
struct Seen {
    raw: RawRoute,
    index: u32,
}

/// The routes, each with its index.
#[derive(Default)]
pub(super) struct Routes {
    all: Indexed<Route>,
    /// Remembered octets, by their hashes; empty until a record states a route.
    seen: Vec<Seen>,
    hasher: RandomState,
}

impl Routes {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The index of a route, which is added if it is new; `None` if the router left every field at zero.
    #[inline]
    pub(super) fn index(&mut self, routed: &Routed<'_>) -> Option<u32> {
        let Some(raw) = routed.raw() else { return Some(self.all.index(routed.read()?)) };
        if self.seen.is_empty() {
            self.seen.resize(SEEN, Seen::default());
        }
        let seen = &mut self.seen[self.hasher.hash_one(raw) as usize % SEEN];
        if seen.raw != raw {
            let index = routed.read().map_or(NO_ROUTE, |route| self.all.index(route));
            *seen = Seen { raw, index };
        }
        Some(seen.index).filter(|&index| index != NO_ROUTE)
    }

    /// All routes, in the order of their indices.
    pub(super) fn all(&self) -> &[Route] {
        self.all.all()
    }

    /// Forgets the routes that are not used; returns the new index of each one that is.
    pub(super) fn retain(&mut self, is_used: &[bool]) -> Vec<u32> {
        let routes = self.take().into_iter().zip(is_used);
        routes.map(|(route, &is_used)| if is_used { self.all.index(route) } else { NO_ROUTE }).collect()
    }

    /// Takes all routes, in the order of their indices.
    pub(super) fn take(&mut self) -> Vec<Route> {
        self.seen.clear();
        self.all.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::element::field::{TemplateField, VARIABLE};
    use crate::collect::element::template::Template;
    use crate::collect::limits::DecodeLimits;
    use proptest::prelude::*;

    const ELEMENTS: [(u16, u16); 16] = [
        (16, 4),
        (17, 4),
        (16, 2),
        (15, 4),
        (62, 16),
        (9, 1),
        (13, 1),
        (56, 6),
        (57, 6),
        (136, 1),
        (70, 3),
        (8, 4),
        (1, 8),
        (225, 4),
        (61, 1),
        (82, VARIABLE),
    ];

    fn template(picked: &[usize]) -> Template {
        let field = |&at: &usize| TemplateField { pen: 0, id: ELEMENTS[at].0, length: ELEMENTS[at].1 };
        Template::new(picked.iter().map(field).collect(), None, &DecodeLimits::default()).unwrap()
    }

    proptest! {
        #[test]
        fn a_route_recognised_by_its_octets_is_the_route_that_they_state(
            templates in prop::collection::vec(prop::collection::vec(0..ELEMENTS.len(), 1..24), 1..4),
            // Few values, so that octets repeat.
            records in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0..2_u8, 200)), 1..60),
        ) {
            let templates: Vec<Template> = templates.iter().map(|picked| template(picked)).collect();
            let mut routes = Routes::default();
            let mut expected = Vec::new();
            for (of, octets) in &records {
                let template = &templates[of.index(templates.len())];
                let fixed = if template.route.has_layout() { template.least_octets() } else { octets.len() };
                let routed = Routed::Record(&template.route, &octets[..fixed]);
                expected.push((routes.index(&routed), routed.read()));
                prop_assert_eq!(routes.index(&routed), expected.last().unwrap().0, "it is found again");
            }
            let all = routes.take();
            for (index, route) in expected {
                prop_assert_eq!(index.map(|index| all[index as usize]), route);
            }
        }
    }

    #[test]
    fn the_same_octets_of_another_template_are_another_route() {
        let (source, destination, both) = (template(&[0]), template(&[1]), template(&[0, 1]));
        let mut routes = Routes::default();
        let records = [(&source, 1), (&destination, 1), (&source, 2), (&both, 1), (&source, 1)];
        let indices = records.map(|(template, number)| {
            let record = [0, 0, 0, number, 0, 0, 0, 0];
            routes.index(&Routed::Record(&template.route, &record[..template.least_octets()])).unwrap()
        });
        // The route of both templates is the same: the second field is zero.
        assert_eq!(indices, [0, 1, 2, 0, 0]);
        let mut emptied = routes.take();
        assert_eq!((emptied.len(), routes.len()), (3, 0));
        assert_eq!(emptied.remove(1).autonomous_systems, [0, 1]);
        assert_eq!(routes.index(&Routed::Record(&destination.route, &[0, 0, 0, 1])), Some(0), "it is counted anew");
    }
}
