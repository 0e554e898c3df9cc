//! The registry of the agent's metrics, and the endpoint that Prometheus reads it from. Each part registers its own
//! metrics.

use anyhow::Context as _;
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};
use std::collections::VecDeque;
use std::fmt::{Debug, Display};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

const PREFIX: &str = "weir_probe";
/// Clients served at once. Another one takes the place of the oldest, which must be slow.
const MOST_CLIENTS: usize = 16;
/// How long a client may take for its request and for its answer together.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait when the system cannot open a connection.
const PAUSE: Duration = Duration::from_millis(200);

/// Declares the metrics of one part: for each metric the field that counts it, its kind and labels, its name and its
/// help. `new` registers them.
macro_rules! declare_metrics {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($field:ident: $kind:ty $(, by $labels:tt)? => $metric:literal, $help:literal;)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $name {
            $($field: $kind,)+
        }

        impl $name {
            pub fn new(metrics: &$crate::metrics::Metrics) -> $name {
                $name { $($field: metrics$(.by($labels))?.register($metric, $help),)+ }
            }
        }
    };
}
pub(crate) use declare_metrics;

/// A metric as the reference lists it.
#[derive(Clone, Debug)]
pub struct ListedMetric {
    pub name: String,
    pub kind: String,
    pub help: String,
}

/// Metrics of one kind, one for each combination of values of their labels.
#[derive(Clone)]
pub struct By<M, const LABELS: usize> {
    names: [&'static str; LABELS],
    family: Family<[(&'static str, String); LABELS], M>,
}

impl<M: Clone + Default, const LABELS: usize> By<M, LABELS> {
    /// The metric with these values, in the order of the labels.
    pub fn of(&self, values: [&dyn Display; LABELS]) -> M {
        let mut values = values.into_iter();
        let labels = self.names.map(|name| (name, values.next().map(ToString::to_string).unwrap_or_default()));
        self.family.get_or_create(&labels).clone()
    }
}

pub type CounterBy<const LABELS: usize> = By<Counter, LABELS>;
pub type GaugeBy<const LABELS: usize> = By<Gauge, LABELS>;

/// Labels shared by the metrics registered with them.
#[derive(Clone, Copy)]
pub struct Labelled<'a, const LABELS: usize> {
    metrics: &'a Metrics,
    names: [&'static str; LABELS],
}

impl<const LABELS: usize> Labelled<'_, LABELS> {
    /// Registers a metric, and returns the handle with which its owner counts.
    pub fn register<M>(&self, name: &str, help: &str) -> By<M, LABELS>
    where
        M: EncodeMetric + TypedMetric + Clone + Default + Debug + Send + Sync + 'static,
    {
        By { names: self.names, family: self.metrics.register(name, help) }
    }
}

struct Registered {
    registry: Registry,
    list: Vec<ListedMetric>,
}

/// The agent's metrics; clones share them.
#[derive(Clone)]
pub struct Metrics(Arc<Mutex<Registered>>);

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new("")
    }
}

impl Metrics {
    /// The metrics of this probe; its parts register theirs.
    pub fn new(probe: &str) -> Metrics {
        let registered = Registered { registry: Registry::with_prefix(PREFIX), list: Vec::new() };
        let metrics = Metrics(Arc::new(Mutex::new(registered)));
        let build = [("version", crate::VERSION.to_owned()), ("probe", probe.to_owned())]
            .map(|(key, value)| (key.to_owned(), value));
        metrics.add("build", "Version of the agent and name of the probe", Info::new(build.to_vec()));
        metrics
    }

    /// The metrics of the probe of this name, served if an address is given.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn open(probe: &str, listen: Option<SocketAddr>) -> anyhow::Result<Metrics> {
        let metrics = Metrics::new(probe);
        if let Some(listen) = listen {
            let bound = metrics.serve(listen)?;
            tracing::info!("metrics on http://{bound}/metrics");
        }
        Ok(metrics)
    }

    /// Registers a metric, and returns the handle with which its owner counts.
    pub fn register<M: Metric + Clone + Default>(&self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.add(name, help, metric.clone());
        metric
    }

    /// Registers metrics that have these labels.
    pub fn by<const LABELS: usize>(&self, names: [&'static str; LABELS]) -> Labelled<'_, LABELS> {
        Labelled { metrics: self, names }
    }

    fn add(&self, name: &str, help: &str, metric: impl Metric) {
        let mut registered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = metric.metric_type().as_str().to_owned();
        registered.list.push(ListedMetric { name: format!("{PREFIX}_{name}"), kind, help: help.to_owned() });
        registered.registry.register(name, help, metric);
    }

    pub fn list(&self) -> Vec<ListedMetric> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).list.clone()
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.0.lock().unwrap_or_else(PoisonError::into_inner).registry) {
            Ok(()) => text,
            Err(error) => format!("# {error}\n"),
        }
    }

    /// Answers `GET /metrics` and `GET /health` on `listen` until the process ends, each client in a thread of its own;
    /// returns the address bound.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn serve(&self, listen: SocketAddr) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind(listen)
            .with_context(|| format!("cannot listen on {listen} for metrics: see [metrics] listen"))?;
        let bound = listener.local_addr()?;
        let metrics = self.clone();
        Builder::new().name("metrics".to_owned()).spawn(move || {
            let mut clients = VecDeque::new();
            loop {
                match listener.accept() {
                    Ok((stream, _)) => metrics.take(stream, &mut clients),
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        })?;
        Ok(bound)
    }

    /// Serves another client.
    fn take(&self, stream: TcpStream, clients: &mut VecDeque<(TcpStream, JoinHandle<()>)>) {
        clients.retain(|(_, thread)| !thread.is_finished());
        if clients.len() >= MOST_CLIENTS {
            if let Some((oldest, _)) = clients.pop_front() {
                // Its thread ends: neither its reads nor its writes wait any longer.
                let _ = oldest.shutdown(Shutdown::Both);
            }
        }
        let Ok(to_close) = stream.try_clone() else { return };
        let (metrics, until) = (self.clone(), Instant::now() + ANSWERED_WITHIN);
        let answer = move || {
            let _ = metrics.answer(&mut Timed { stream: &stream, until });
            // The other handle of this connection is kept until another client comes.
            let _ = stream.shutdown(Shutdown::Both);
        };
        if let Ok(thread) = Builder::new().name("scrape".to_owned()).spawn(answer) {
            clients.push_back((to_close, thread));
        }
    }

    fn answer(&self, stream: &mut Timed<'_>) -> io::Result<()> {
        let mut reader = BufReader::new(Read::take(&mut *stream, 8192));
        let mut request = String::new();
        reader.read_line(&mut request)?;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let path = request.split_whitespace().nth(1).unwrap_or("");
        const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let (status, form, body) = match path {
            "/metrics" | "/" => ("200 OK", METRICS, self.text()),
            "/health" => ("200 OK", "text/plain", "ok\n".to_owned()),
            _ => ("404 Not Found", "text/plain", "only /metrics and /health are here\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {form}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes())
    }
}

/// A connection that must be done by a time.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_over_http() {
        let metrics = Metrics::new("test");
        let shed: Counter = metrics.register("messages_shed", "Messages given up");
        shed.inc();
        let refused: CounterBy<2> = metrics.by(["worker", "cause"]).register("packets_refused", "Packets refused");
        refused.of([&3, &"late"]).inc_by(2);
        let bound = metrics.serve("127.0.0.1:0".parse().unwrap()).unwrap();
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(bound).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = ask("/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("weir_probe_messages_shed_total 1"), "{answer}");
        assert!(answer.contains("weir_probe_packets_refused_total{worker=\"3\",cause=\"late\"} 2"), "{answer}");
        assert!(answer.contains("weir_probe_build_info{"), "{answer}");
        assert!(ask("/other").starts_with("HTTP/1.1 404"));
        assert!(ask("/health").starts_with("HTTP/1.1 200") && ask("/health").ends_with("\r\n\r\nok\n"));
    }

    #[test]
    fn clients_that_say_nothing_delay_no_other_one() {
        let bound = Metrics::new("test").serve("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent: Vec<TcpStream> = (0..3 * MOST_CLIENTS).map(|_| TcpStream::connect(bound).unwrap()).collect();
        let began = Instant::now();
        let mut stream = TcpStream::connect(bound).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(began.elapsed() < ANSWERED_WITHIN / 2, "{:?} with {} others", began.elapsed(), silent.len());
    }

    #[test]
    fn only_metrics_of_parts_are_served() {
        let metrics = Metrics::open("test", Some("127.0.0.1:0".parse().unwrap())).unwrap();
        let names: Vec<String> = metrics.list().into_iter().map(|listed| listed.name).collect();
        assert_eq!(names, ["weir_probe_build"]);
    }
}
