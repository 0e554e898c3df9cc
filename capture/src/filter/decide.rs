//! Which programs match a packet or a flow: by classes and a memory of verdicts instead of running them all.
//!
//! For each [`Row`] a [`Decider`] knows which programs can match at all and which fields these look at. The classes of
//! the fields' values are the coordinates of a cell, and whoever falls into the same cell gets the same [`Verdict`],
//! worked out when the first one does. Programs that look further have to be run each time; the verdict names them.

use super::analysis::{Explorer, Field, Oracle, Predicate, Row};
use super::bpf::Program;
use super::classes::Classes;
use crate::meter::Volume;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What programs are asked about.
pub trait Subject {
    /// Its version and protocol.
    fn row(&self) -> Row;
    /// The value of a field; `None` where it does not have it.
    fn read(&self, field: Field) -> Option<u32>;
    /// Its octets from the IP header on and its length, as a program is to see them.
    fn packet<'a>(&'a self, scratch: &'a mut Vec<u8>) -> (&'a [u8], u32);
}

/// Cells of a row that are looked up without hashing, of a row and of all.
const MAX_DENSE_ROW: u64 = 512;
const MAX_DENSE: u64 = 1 << 14;
/// Cells of a row; fields that would make it more are left out, and the programs that look at them run each time.
const MAX_CELLS: u64 = 1 << 48;
/// Cells and verdicts remembered; past either, all are forgotten.
const MAX_REMEMBERED: usize = 1 << 15;
const MAX_VERDICTS: usize = 4096;

/// Decides for one group of programs.
#[derive(Debug)]
pub struct Decider {
    rows: Vec<RowPlan>,
    axes: BTreeMap<Field, Axis>,
    tables: Vec<Classes>,
    dense: usize,
}

/// A field that programs look at.
#[derive(Debug)]
struct Axis {
    table: usize,
    /// What its classes tell apart.
    predicates: BTreeSet<Predicate>,
}

#[derive(Debug, Default)]
struct RowPlan {
    coordinates: Box<[Coordinate]>,
    /// Those that can match.
    programs: Box<[Candidate]>,
    /// Where its cells begin, if they are dense.
    dense: Option<usize>,
}

#[derive(Debug)]
struct Coordinate {
    field: Field,
    table: usize,
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

/// Takes down what programs look at, and leaves every question open.
#[derive(Default)]
struct Survey {
    fields: BTreeSet<Field>,
    predicates: BTreeSet<(Field, Predicate)>,
    opaque: bool,
}

impl Oracle for Survey {
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
}

/// Finds out whether a row's cells decide a program in any case.
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

/// Answers what a cell decides, by one that fell into it.
struct Representative<'a, S> {
    plan: &'a [Coordinate],
    axes: &'a BTreeMap<Field, Axis>,
    subject: &'a S,
}

impl<S: Subject> Representative<'_, S> {
    fn keyed(&self, field: Field) -> bool {
        self.plan.iter().any(|coordinate| coordinate.field == field)
    }
}

impl<S: Subject> Oracle for Representative<'_, S> {
    fn load(&mut self, field: Option<Field>) -> Option<bool> {
        field.filter(|&field| self.keyed(field)).map(|field| self.subject.read(field).is_some())
    }

    fn compare(&mut self, predicate: Option<(Field, Predicate)>) -> Option<bool> {
        let (field, predicate) = predicate?;
        let decides = self.keyed(field) && self.axes.get(&canonical(field))?.predicates.contains(&predicate);
        if decides { self.subject.read(field).map(|value| predicate.holds(value)) } else { None }
    }
}

/// Whether a program looks only at what is constant in what one end of a flow sends.
pub fn constant_in_flows(program: &Program, explorer: &mut Explorer) -> bool {
    Row::all().all(|row| {
        let mut survey = Survey::default();
        explorer.explore(program, row, &mut survey);
        !survey.opaque && survey.fields.iter().all(|&field| row.constant(field))
    })
}

impl Decider {
    /// For the programs of these numbers.
    pub fn new(programs: &[Program], numbers: &[u32], explorer: &mut Explorer) -> Decider {
        let mut predicates = BTreeMap::<Field, BTreeSet<Predicate>>::new();
        let mut candidates = Vec::with_capacity(Row::COUNT);
        for row in Row::all() {
            let mut of_row = Vec::new();
            let mut fields = BTreeSet::new();
            for &number in numbers {
                let mut survey = Survey::default();
                let outcome = explorer.explore(&programs[number as usize], row, &mut survey);
                if outcome.matches {
                    of_row.push(number);
                    for (field, predicate) in survey.predicates {
                        predicates.entry(canonical(field)).or_default().insert(predicate);
                    }
                    fields.extend(survey.fields);
                }
            }
            candidates.push((row, of_row, fields));
        }
        let mut decider = Decider { rows: Vec::new(), axes: BTreeMap::new(), tables: Vec::new(), dense: 0 };
        for (_, _, fields) in &candidates {
            for field in fields {
                let field = canonical(*field);
                if !decider.axes.contains_key(&field) {
                    let (classes, kept) = Classes::new(field.size, &predicates.remove(&field).unwrap_or_default());
                    decider.axes.insert(field, Axis { table: decider.tables.len(), predicates: kept });
                    decider.tables.push(classes);
                }
            }
        }
        for (row, numbers, fields) in candidates {
            let plan = decider.plan(programs, row, &numbers, &fields, explorer);
            decider.rows.push(plan);
        }
        decider
    }

    fn plan(
        &mut self,
        programs: &[Program],
        row: Row,
        numbers: &[u32],
        fields: &BTreeSet<Field>,
        explorer: &mut Explorer,
    ) -> RowPlan {
        let mut cells = 1;
        let mut coordinates = Vec::new();
        for &field in fields {
            let Some(axis) = self.axes.get(&canonical(field)) else { continue };
            let more = cells * self.tables[axis.table].count();
            if more <= MAX_CELLS {
                coordinates.push(Coordinate { field, table: axis.table, stride: cells });
                cells = more;
            }
        }
        let candidate = |&number: &u32| {
            let mut regularity = Regularity { plan: &coordinates, axes: &self.axes, regular: true };
            explorer.explore(&programs[number as usize], row, &mut regularity);
            Candidate { number, regular: regularity.regular }
        };
        let candidates: Box<[Candidate]> = numbers.iter().map(candidate).collect();
        let dense = !candidates.is_empty() && cells <= MAX_DENSE_ROW && self.dense as u64 + cells <= MAX_DENSE;
        let begins = self.dense;
        if dense {
            self.dense += cells as usize;
        }
        RowPlan { coordinates: coordinates.into(), programs: candidates, dense: dense.then_some(begins) }
    }

    /// Whether nothing is decided here.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.programs.is_empty())
    }
}

/// What is known of all who fall into some cells.
#[derive(Debug)]
struct Verdict {
    /// What they sent, not yet added to the labels below.
    volume: Volume,
    /// Programs that match.
    matching: Box<[u32]>,
    /// Programs that may match: they have to be run.
    open: Box<[u32]>,
}

/// The verdicts worked out so far, with what was counted by each.
#[derive(Debug)]
pub struct Memory {
    dense: Vec<u32>,
    sparse: HashMap<u64, u32, RandomState>,
    numbers: HashMap<(Box<[u32]>, Box<[u32]>), u32>,
    verdicts: Vec<Verdict>,
}

/// No verdict yet.
const NONE: u32 = u32::MAX;

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

    /// Counts what a subject sent, for each program that matches it: at once in `volumes`, which is by program number,
    /// or at the next [`Memory::settle`].
    #[inline]
    pub fn count(
        &mut self,
        decider: &Decider,
        programs: &[Program],
        subject: &impl Subject,
        volume: Volume,
        volumes: &mut [Volume],
        scratch: &mut Vec<u8>,
    ) {
        let row = subject.row().number();
        let plan = &decider.rows[row];
        if plan.programs.is_empty() {
            return;
        }
        let mut cell = 0;
        for Coordinate { field, table, stride } in &plan.coordinates {
            cell += subject.read(*field).map_or(0, |value| decider.tables[*table].of(value)) * stride;
        }
        let key = (row as u64) << 48 | cell;
        let known = match plan.dense {
            Some(begins) => self.dense[begins + cell as usize],
            None => self.sparse.get(&key).copied().unwrap_or(NONE),
        };
        let number = if known == NONE {
            if self.sparse.len() >= MAX_REMEMBERED || self.verdicts.len() >= MAX_VERDICTS {
                self.forget(volumes);
            }
            let number = self.learn(decider, programs, subject, scratch);
            match plan.dense {
                Some(begins) => self.dense[begins + cell as usize] = number,
                None => _ = self.sparse.insert(key, number),
            }
            number
        } else {
            known
        };
        let verdict = &mut self.verdicts[number as usize];
        verdict.volume += volume;
        if !verdict.open.is_empty() {
            let (data, length) = subject.packet(scratch);
            for &number in &verdict.open {
                if programs[number as usize].matches(data, length) {
                    volumes[number as usize] += volume;
                }
            }
        }
    }

    /// Works out the verdict for the cell of a subject.
    #[cold]
    fn learn(&mut self, decider: &Decider, programs: &[Program], subject: &impl Subject, scratch: &mut Vec<u8>) -> u32 {
        let row = subject.row();
        let plan = &decider.rows[row.number()];
        let (data, length) = subject.packet(scratch);
        let mut explorer = Explorer::default();
        let (mut matching, mut open) = (Vec::new(), Vec::new());
        for &Candidate { number, regular } in &plan.programs {
            let program = &programs[number as usize];
            let decided = if regular {
                Some(program.matches(data, length))
            } else {
                let mut representative = Representative { plan: &plan.coordinates, axes: &decider.axes, subject };
                explorer.explore(program, row, &mut representative).decided()
            };
            match decided {
                Some(true) => matching.push(number),
                Some(false) => {}
                None => open.push(number),
            }
        }
        let (matching, open): (Box<[u32]>, Box<[u32]>) = (matching.into(), open.into());
        let verdicts = &mut self.verdicts;
        *self.numbers.entry((matching.clone(), open.clone())).or_insert_with(|| {
            verdicts.push(Verdict { volume: Volume::default(), matching, open });
            (verdicts.len() - 1) as u32
        })
    }

    /// Adds up in `volumes`, by program number, what was counted since the last time.
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
