//! Decides which programs match a packet or a flow, by classes and remembered verdicts instead of running all programs.
//!
//! For each [`Row`] a [`Decider`] knows which programs can match at all and which fields these look at. Programs that
//! have fields in common make up a [`DecisionPlan`], and several such groups share one as long as it stays small. The
//! classes of its fields' values are the coordinates of a cell, and packets and flows in the same cell get the same
//! [`Verdict`], which is computed for the first of them. Programs that read more must run each time; the verdict names
//! them.

use super::analysis::{Explorer, Field, Oracle, Predicate, Row};
use super::bpf::Program;
use super::classes::Classes;
use super::subject::{Place, Readable, Subject};
use crate::volume::Volume;
use foldhash::fast::RandomState;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of cells that are looked up without hashing, per plan and in total.
const MAX_DENSE_PLAN: u64 = 1 << 15;
const MAX_DENSE: u64 = 1 << 17;
/// Maximum number of cells of a plan; fields that would exceed it are left out, and the programs that read them run
/// each time.
const MAX_CELLS: u64 = 1 << CELL_BITS;
const CELL_BITS: u32 = 40;
/// Maximum number of cells and verdicts remembered; beyond either, all are forgotten.
const MAX_REMEMBERED: usize = 1 << 15;
const MAX_VERDICTS: usize = 1 << 12;

/// Decides for one group of programs.
#[derive(Debug)]
pub struct Decider {
    /// By row.
    rows: Vec<Box<[DecisionPlan]>>,
    axes: BTreeMap<Field, Axis>,
    tables: Vec<Classes>,
    dense: usize,
}

/// A field that programs look at.
#[derive(Debug)]
struct Axis {
    table: usize,
    /// The predicates that its classes distinguish.
    predicates: BTreeSet<Predicate>,
}

/// How programs with fields in common are decided.
#[derive(Debug)]
pub struct DecisionPlan {
    coordinates: Box<[Coordinate]>,
    programs: Box<[Candidate]>,
    cells: VerdictCells,
}

/// The cells that hold the numbers of a plan's verdicts.
#[derive(Clone, Copy, Debug)]
enum VerdictCells {
    /// From here on in [`Memory::dense`].
    Dense(usize),
    /// In [`Memory::sparse`], with this number above the cell's.
    Sparse(u64),
}

#[derive(Clone, Copy, Debug)]
struct Coordinate {
    field: Field,
    place: Place,
    table: u32,
    stride: u64,
}

#[derive(Debug)]
struct Candidate {
    number: u32,
    /// Whether the cell decides in any case.
    regular: bool,
}

/// Source and destination port share their classes.
fn canonical(field: Field) -> Field {
    match field {
        Field { anchor: super::analysis::Anchor::Transport, offset: 2, size: 2 } => Field { offset: 0, ..field },
        _ => field,
    }
}

/// Records the fields that programs read, and leaves every question open.
#[derive(Default)]
struct FieldSurvey {
    fields: BTreeSet<Field>,
    predicates: BTreeSet<(Field, Predicate)>,
    opaque: bool,
    fragment: bool,
}

impl Oracle for FieldSurvey {
    fn load(&mut self, field: Option<Field>) -> Option<bool> {
        match field {
            Some(field) => _ = self.fields.insert(field),
            None => self.opaque = true,
        }
        None
    }

    fn compare(&mut self, predicate: Option<(Field, Predicate)>) -> Option<bool> {
        self.predicates.extend(predicate);
        None
    }

    fn fragment(&mut self) {
        self.fragment = true;
    }
}

/// Determines whether a plan's cells always decide a program.
struct Regularity<'a> {
    plan: &'a [Coordinate],
    axes: &'a BTreeMap<Field, Axis>,
    regular: bool,
}

impl Oracle for Regularity<'_> {
    fn load(&mut self, field: Option<Field>) -> Option<bool> {
        self.regular &= field.is_some_and(|field| self.plan.iter().any(|coordinate| coordinate.field == field));
        None
    }

    fn compare(&mut self, predicate: Option<(Field, Predicate)>) -> Option<bool> {
        self.regular &= predicate.is_some_and(|(field, predicate)| {
            self.axes.get(&canonical(field)).is_some_and(|axis| axis.predicates.contains(&predicate))
        });
        None
    }
}

/// Answers questions that a cell decides, from one subject in that cell.
struct Representative<'a> {
    plan: &'a [Coordinate],
    axes: &'a BTreeMap<Field, Axis>,
    subject: &'a Subject<'a>,
}

impl Representative<'_> {
    fn keyed(&self, field: Field) -> bool {
        self.plan.iter().any(|coordinate| coordinate.field == field)
    }
}

impl Oracle for Representative<'_> {
    fn load(&mut self, field: Option<Field>) -> Option<bool> {
        field.filter(|&field| self.keyed(field)).map(|field| self.subject.read(field).is_some())
    }

    fn compare(&mut self, predicate: Option<(Field, Predicate)>) -> Option<bool> {
        let (field, predicate) = predicate?;
        let decides = self.keyed(field) && self.axes.get(&canonical(field))?.predicates.contains(&predicate);
        if decides { self.subject.read(field).map(|value| predicate.holds(value)) } else { None }
    }
}

/// Whether a program reads only fields that have the same value in all packets that one end of a flow sends.
pub fn constant_in_flows(program: &Program, explorer: &mut Explorer) -> bool {
    // If a program does not test for fragments, later fragments are like other packets.
    Row::all().filter(|row| !row.later_fragment).all(|row| {
        let mut survey = FieldSurvey::default();
        explorer.explore(program, row, &mut survey);
        !survey.opaque && !survey.fragment && survey.fields.iter().all(|&field| row.constant(field))
    })
}

/// Programs of a row, and the fields they look at.
type Component = (Vec<u32>, BTreeSet<Field>);

impl Decider {
    /// A decider for the programs with these numbers, and for later fragments too if `fragments`.
    pub fn new(programs: &[Program], numbers: &[u32], fragments: bool, explorer: &mut Explorer) -> Decider {
        let mut predicates = BTreeMap::<Field, BTreeSet<Predicate>>::new();
        let mut rows = Vec::with_capacity(Row::COUNT);
        for row in Row::all().filter(|row| fragments || !row.later_fragment) {
            let mut components = Vec::<Component>::new();
            for &number in numbers {
                let mut survey = FieldSurvey::default();
                let outcome = explorer.explore(&programs[number as usize], row, &mut survey);
                if !outcome.matches {
                    continue;
                }
                for (field, predicate) in survey.predicates {
                    predicates.entry(canonical(field)).or_default().insert(predicate);
                }
                let (joined, apart): (Vec<_>, Vec<_>) =
                    components.into_iter().partition(|(_, fields)| !fields.is_disjoint(&survey.fields));
                let mut component = (vec![number], survey.fields);
                for (numbers, fields) in joined {
                    component.0.extend(numbers);
                    component.1.extend(fields);
                }
                components = apart;
                components.push(component);
            }
            rows.push((row, components));
        }
        let mut decider = Decider { rows: Vec::new(), axes: BTreeMap::new(), tables: Vec::new(), dense: 0 };
        for field in rows.iter().flat_map(|(_, components)| components).flat_map(|(_, fields)| fields) {
            let field = canonical(*field);
            if let Entry::Vacant(axis) = decider.axes.entry(field) {
                let (classes, kept) = Classes::new(field.size, &predicates.remove(&field).unwrap_or_default());
                axis.insert(Axis { table: decider.tables.len(), predicates: kept });
                decider.tables.push(classes);
            }
        }
        let mut plans = 0;
        for (row, components) in rows {
            let mut of_row = Vec::new();
            for (numbers, fields) in decider.merged(components) {
                let (coordinates, cells) = decider.coordinates(&fields);
                let candidate = |&number: &u32| {
                    let mut regularity = Regularity { plan: &coordinates, axes: &decider.axes, regular: true };
                    explorer.explore(&programs[number as usize], row, &mut regularity);
                    Candidate { number, regular: regularity.regular }
                };
                let programs = numbers.iter().map(candidate).collect();
                let cells = if cells <= MAX_DENSE_PLAN && decider.dense as u64 + cells <= MAX_DENSE {
                    decider.dense += cells as usize;
                    VerdictCells::Dense(decider.dense - cells as usize)
                } else {
                    VerdictCells::Sparse(plans << CELL_BITS)
                };
                plans += 1;
                of_row.push(DecisionPlan { coordinates, programs, cells });
            }
            decider.rows.push(of_row.into());
        }
        decider
    }

    /// Merges components as long as one look-up still suffices for each.
    fn merged(&self, mut components: Vec<Component>) -> Vec<Component> {
        components.sort_by_cached_key(|(_, fields)| self.coordinates(fields).1);
        let mut merged = Vec::<Component>::new();
        for (numbers, fields) in components {
            if let Some((others, joint)) = merged.last_mut() {
                let union = &*joint | &fields;
                if self.coordinates(&union).1 <= MAX_DENSE_PLAN {
                    others.extend(numbers);
                    *joint = union;
                    continue;
                }
            }
            merged.push((numbers, fields));
        }
        merged
    }

    /// Coordinates made from fields, and the number of cells.
    fn coordinates(&self, fields: &BTreeSet<Field>) -> (Box<[Coordinate]>, u64) {
        let mut cells = 1;
        let mut coordinates = Vec::new();
        for &field in fields {
            let Some(axis) = self.axes.get(&canonical(field)) else { continue };
            let more = cells * self.tables[axis.table].count();
            if more <= MAX_CELLS {
                let place = Place::of(field);
                coordinates.push(Coordinate { field, place, table: axis.table as u32, stride: cells });
                cells = more;
            }
        }
        (coordinates.into(), cells)
    }

    /// How packets of a row are decided; without plans nothing can match.
    #[inline]
    pub fn plans(&self, row: Row) -> &[DecisionPlan] {
        &self.rows[row.number()]
    }

    /// Whether nothing can match at all.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|plans| plans.is_empty())
    }
}

/// Programs that match, and those that have to be run.
type Lists = (Box<[u32]>, Box<[u32]>);

/// The verdict on all subjects in some cells.
#[derive(Debug)]
struct Verdict {
    /// Their volume, not yet added to the labels below.
    volume: Volume,
    /// Programs that match.
    matching: Box<[u32]>,
    /// Programs that may match: they have to be run.
    open: Box<[u32]>,
}

/// The verdicts so far, each with its counts.
#[derive(Debug)]
pub struct Memory {
    dense: Vec<u16>,
    sparse: HashMap<u64, u16, RandomState>,
    numbers: HashMap<Lists, u16>,
    verdicts: Vec<Verdict>,
}

/// No verdict yet.
const NONE: u16 = u16::MAX;

impl Memory {
    /// Nothing is known yet.
    pub fn new(decider: &Decider) -> Memory {
        Memory {
            dense: vec![NONE; decider.dense],
            sparse: HashMap::default(),
            numbers: HashMap::new(),
            verdicts: Vec::new(),
        }
    }

    /// Counts a subject's volume for each program that matches it: immediately in `volumes`, which is indexed by
    /// program number, or at the next [`Memory::settle`].
    #[inline]
    pub fn count(
        &mut self,
        decider: &Decider,
        plans: &[DecisionPlan],
        programs: &[Program],
        subject: &impl Readable,
        volume: Volume,
        volumes: &mut [Volume],
    ) {
        for plan in plans {
            let mut cell = 0;
            for &Coordinate { place, table, stride, .. } in &plan.coordinates {
                cell += subject.value(place).map_or(0, |value| decider.tables[table as usize].of(value)) * stride;
            }
            let known = match plan.cells {
                VerdictCells::Dense(begins) => self.dense[begins + cell as usize],
                VerdictCells::Sparse(above) => self.sparse.get(&(above | cell)).copied().unwrap_or(NONE),
            };
            let number = if known == NONE {
                self.learn(decider, plan, cell, programs, &subject.subject(&mut [0; 44]), volumes)
            } else {
                known
            };
            let verdict = &mut self.verdicts[usize::from(number)];
            verdict.volume += volume;
            if !verdict.open.is_empty() {
                let mut buffer = [0; 44];
                let subject = subject.subject(&mut buffer);
                for &number in &verdict.open {
                    if programs[number as usize].matches(subject.data, subject.octets) {
                        volumes[number as usize] += volume;
                    }
                }
            }
        }
    }

    /// Computes the verdict for a cell from one subject in it.
    #[cold]
    fn learn(
        &mut self,
        decider: &Decider,
        plan: &DecisionPlan,
        cell: u64,
        programs: &[Program],
        subject: &Subject<'_>,
        volumes: &mut [Volume],
    ) -> u16 {
        if self.sparse.len() >= MAX_REMEMBERED || self.verdicts.len() >= MAX_VERDICTS {
            self.forget(volumes);
        }
        let mut explorer = Explorer::default();
        let (mut matching, mut open) = (Vec::new(), Vec::new());
        for &Candidate { number, regular } in &plan.programs {
            let program = &programs[number as usize];
            let decided = if regular {
                Some(program.matches(subject.data, subject.octets))
            } else {
                let mut representative = Representative { plan: &plan.coordinates, axes: &decider.axes, subject };
                explorer.explore(program, subject.row, &mut representative).decided()
            };
            match decided {
                Some(true) => matching.push(number),
                Some(false) => {}
                None => open.push(number),
            }
        }
        let (matching, open): (Box<[u32]>, Box<[u32]>) = (matching.into(), open.into());
        let verdicts = &mut self.verdicts;
        let number = *self.numbers.entry((matching.clone(), open.clone())).or_insert_with(|| {
            verdicts.push(Verdict { volume: Volume::default(), matching, open });
            (verdicts.len() - 1) as u16
        });
        match plan.cells {
            VerdictCells::Dense(begins) => self.dense[begins + cell as usize] = number,
            VerdictCells::Sparse(above) => _ = self.sparse.insert(above | cell, number),
        }
        number
    }

    /// Adds to `volumes`, by program number, the counts since the last call.
    pub fn settle(&mut self, volumes: &mut [Volume]) {
        for verdict in &mut self.verdicts {
            let volume = std::mem::take(&mut verdict.volume);
            for &number in &verdict.matching {
                volumes[number as usize] += volume;
            }
        }
    }

    #[cold]
    fn forget(&mut self, volumes: &mut [Volume]) {
        self.settle(volumes);
        self.dense.fill(NONE);
        self.sparse.clear();
        self.numbers.clear();
        self.verdicts.clear();
    }
}
