//! Capture files as a source: their packets in order, with shifted times.

use super::file::{CaptureFile, Reader};
use super::{Batch, Next, Polled, Source, Witness};
use crate::packet::Frame;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Unit of the shift of packet times, so that every window keeps its packets.
const SHIFT_UNIT_NS: i64 = 30_000_000_000;

/// The shift of packet times that puts `anchor_ns` at most 30 s before `now_ns`.
pub(super) fn shift_ns(now_ns: i64, anchor_ns: i64) -> i64 {
    now_ns.saturating_sub(anchor_ns).div_euclid(SHIFT_UNIT_NS) * SHIFT_UNIT_NS
}

/// A pause between two files, ns, that is long enough to report.
const LONG_PAUSE_NS: i64 = 24 * 3_600_000_000_000;

/// Packets handed over in one go.
const FAIR: usize = 1024;

/// The speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Speed {
    /// As fast as possible.
    Max,
    /// At the pace of the packets' times.
    Real,
}

/// Files in order, each with the shift of its packets' times.
pub struct Plan {
    /// The files, by the time of their first packet.
    pub files: Vec<CaptureFile>,
    /// Shift added to the packet times of each file, ns.
    moves: Vec<i64>,
    /// The shift that all files have in common, ms.
    pub shift_ms: i64,
    /// Shifted times of the first and the last packet, in ns; the current time if there are no packets.
    pub span_ns: (i64, i64),
    speed: Speed,
    pub octets: u64,
    /// How far apart files are stored, if the user may not expect it.
    pub notes: Vec<String>,
}

impl Plan {
    /// Sorts the files by the times of their first packets, and chooses the time shift of each.
    ///
    /// Without `keep_time` all times are shifted by one common multiple of 30 s, so that the last packet (with
    /// [`Speed::Real`]: the first) is at most 30 s before `now_ns`; a file that begins before the previous one ended
    /// follows it directly instead. With `keep_time` the shifts are 0.
    pub fn new(mut files: Vec<CaptureFile>, keep_time: bool, speed: Speed, now_ns: i64) -> Plan {
        files.sort_by_key(|file| file.survey.first_ns);
        let mut moves = Vec::new();
        let mut notes = Vec::new();
        let mut end: Option<i64> = None;
        let mut begin = None;
        for (number, file) in files.iter().enumerate() {
            let survey = &file.survey;
            let pause = end.filter(|_| !keep_time && survey.packets > 0).map(|end| survey.first_ns.saturating_sub(end));
            let follow = pause.map_or(0, |pause| pause.saturating_neg().max(0));
            if let Some(pause) = pause.filter(|pause| !(0..LONG_PAUSE_NS).contains(pause)) {
                notes.push(note(&file.path, &files[number - 1].path, pause));
            }
            moves.push(follow);
            if survey.packets > 0 {
                begin = begin.or(Some(survey.first_ns));
                end = Some(end.unwrap_or(i64::MIN).max(survey.last_ns.saturating_add(follow)));
            }
        }
        let (begin, end) = (begin.unwrap_or(now_ns), end.unwrap_or(now_ns));
        let anchor = if speed == Speed::Real { begin } else { end };
        let shift = if keep_time { 0 } else { shift_ns(now_ns, anchor) };
        moves.iter_mut().for_each(|follow| *follow += shift);
        let octets = files.iter().map(|file| file.octets().len() as u64).sum();
        let span_ns = (begin + shift, end + shift);
        Plan { files, moves, shift_ms: shift / 1_000_000, span_ns, speed, octets, notes }
    }

    pub fn packets(&self) -> u64 {
        self.files.iter().map(|file| file.survey.packets).sum()
    }
}

/// The notice on a file that begins `pause` ns after the one before it ended.
fn note(file: &Path, before: &Path, pause: i64) -> String {
    let (file, before) = (file.display(), before.display());
    let seconds = Duration::from_secs(pause.unsigned_abs() / 1_000_000_000);
    let time = humantime::format_duration(seconds);
    if pause < 0 {
        format!("{file} begins {time} before {before} ends: its times are moved so that it follows")
    } else {
        format!(
            "{file} begins {time} after {before} ended, and its records are stored as far apart; read alone, it ends now"
        )
    }
}

/// One worker's pass over a [`Plan`]: every worker reads all packets and keeps its share.
pub struct Replay {
    plan: Arc<Plan>,
    file: usize,
    reader: Option<Reader>,
    done_octets: u64,
    progress: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    stopped: bool,
    started: Instant,
}

impl Replay {
    /// Starts at the first packet; `progress` is set to the octets read, and reading ends early once `stop` is set.
    pub fn new(plan: Arc<Plan>, progress: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> Replay {
        let reader = plan.files.first().map(CaptureFile::reader);
        Replay { plan, file: 0, reader, done_octets: 0, progress, stop, stopped: false, started: Instant::now() }
    }

    fn replay_ns(&self) -> i64 {
        self.plan.span_ns.0.saturating_add(i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Source for Replay {
    fn poll(&mut self, patience: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> std::io::Result<Polled> {
        let plan = Arc::clone(&self.plan);
        if self.stopped || self.stop.load(Ordering::Relaxed) {
            return Ok(Polled::End);
        }
        let mut batch = Batch::new();
        let mut handed = 0;
        while handed < FAIR {
            let (Some(reader), Some(file)) = (&mut self.reader, plan.files.get(self.file)) else {
                batch.hand_over(take);
                return Ok(Polled::End);
            };
            let before = (plan.speed == Speed::Real).then(|| reader.clone());
            // The survey has already found a truncation, and the command that opened the file reports it.
            let Ok(Some(packet)) = reader.next(file.octets()) else {
                self.done_octets += file.octets().len() as u64;
                self.file += 1;
                self.reader = plan.files.get(self.file).map(CaptureFile::reader);
                continue;
            };
            let time_ns = packet.time_ns.saturating_add(plan.moves[self.file]);
            if let Some(before) = before {
                let wait = time_ns - self.replay_ns();
                if wait > 0 {
                    // Not due yet: read it again when it is.
                    self.reader = Some(before);
                    if handed == 0 {
                        std::thread::sleep(patience.min(Duration::from_nanos(wait as u64)));
                        return Ok(Polled::Idle);
                    }
                    break;
                }
            }
            handed += 1;
            if batch.push(packet.frame(time_ns)) && batch.hand_over(take) == Next::Pause {
                break;
            }
        }
        batch.hand_over(take);
        let offset = self.reader.as_ref().map_or(0, Reader::offset) as u64;
        self.progress.fetch_max(self.done_octets + offset, Ordering::Relaxed);
        Ok(Polled::Packets)
    }

    fn now_ns(&self) -> Option<i64> {
        (self.plan.speed == Speed::Real).then(|| self.replay_ns())
    }

    fn witness(&mut self) -> Option<Witness> {
        None
    }

    fn stop(&mut self) -> bool {
        self.stopped = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing as t;

    #[test]
    fn files_far_apart_and_overlapping_ones_are_named() {
        const SECOND: u64 = 1_000_000_000;
        const YEAR: u64 = 365 * 86_400 * SECOND;
        let file = |name: &str, from: u64, to: u64| {
            let packets = [from, to].map(|time_ns| t::whole(YEAR + time_ns, vec![1; 60]));
            CaptureFile::from_octets(Path::new(name), t::pcap(t::Form::default(), &packets)).unwrap()
        };
        let files = || {
            vec![
                file("later", 3 * YEAR, 3 * YEAR + SECOND),
                file("first", 0, 60 * SECOND),
                file("overlapping", 50 * SECOND, 55 * SECOND),
                file("next", 70 * SECOND, 80 * SECOND),
            ]
        };
        let plan = Plan::new(files(), false, Speed::Max, 0);
        assert_eq!(
            plan.moves.iter().map(|moved| moved - plan.shift_ms * 1_000_000).collect::<Vec<_>>(),
            [0, 10 * SECOND as i64, 0, 0]
        );
        let [overlapping, later] = &plan.notes[..] else { panic!("{:?}", plan.notes) };
        assert_eq!(overlapping, "overlapping begins 10s before first ends: its times are moved so that it follows");
        assert!(later.starts_with("later begins 2years 11months"), "{later}");
        assert!(Plan::new(files(), true, Speed::Max, 0).notes.is_empty(), "--keep-time moves nothing");
    }
}
