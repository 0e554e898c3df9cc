//! A running agent, and network namespaces to run it in.

use super::{assert_balanced, probe};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two namespaces that exist for the duration of the test.
pub struct Net {
    pub names: [String; 2],
}

pub fn ip(arguments: &[&str]) -> bool {
    Command::new("ip")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl Net {
    /// Creates the namespaces, and a veth pair between them.
    pub fn new(tag: &str) -> Net {
        Net::make(tag).expect("network namespaces can be made")
    }

    /// `None` if they cannot be created: without root, or without iproute2.
    pub fn make(tag: &str) -> Option<Net> {
        let names = ["a", "b"].map(|side| format!("weir-{tag}-{}-{side}", std::process::id()));
        let net = Net { names };
        let [a, b] = &net.names;
        let made = ip(&["netns", "add", a])
            && ip(&["netns", "add", b])
            && ip(&["link", "add", "wire0", "netns", a, "type", "veth", "peer", "name", "wire1", "netns", b])
            && ip(&["-n", a, "addr", "add", "10.99.0.1/24", "dev", "wire0"])
            && ip(&["-n", b, "addr", "add", "10.99.0.2/24", "dev", "wire1"])
            // Without IPv6, no host sends packets of its own while the test counts.
            && net.inside(a, "sysctl").args(["-qw", "net.ipv6.conf.wire0.disable_ipv6=1"]).status().is_ok_and(|s| s.success())
            && net.inside(b, "sysctl").args(["-qw", "net.ipv6.conf.wire1.disable_ipv6=1"]).status().is_ok_and(|s| s.success())
            && [("lo", a), ("wire0", a), ("lo", b), ("wire1", b)].iter().all(|(link, of)| ip(&["-n", of, "link", "set", link, "up"]));
        made.then_some(net)
    }

    pub fn inside(&self, namespace: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]);
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| {
            ip(&["netns", "del", name]);
        });
    }
}

/// A running agent, with Kafka away, and its log.
pub struct Agent(pub Child, pub std::sync::mpsc::Receiver<String>);

impl Agent {
    pub fn start(net: &Net, folder: &Path, interface: &str, more: &str) -> Agent {
        let config = folder.join("weir-probe.toml");
        let text = format!(
            "probe = \"live\"\ninterval = \"1s\"\nworkers = 2\nstate_dir = {folder:?}\n{more}\n[source]\ninterface = \"{interface}\"\n\
             [kafka]\nbrokers = \"127.0.0.1:1\"\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut command = net.inside(&net.names[0], probe().get_program().to_str().unwrap());
        command.args(["run", "--summary", "json", "--config"]).arg(&config);
        Agent::spawn(command)
    }

    /// Starts it, and waits until it captures.
    pub fn spawn(mut command: Command) -> Agent {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, said) = std::sync::mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
        let agent = Agent(child, said);
        agent.wait_for("capturing on");
        agent
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.0.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()));
    }

    /// Kills it, like a crash.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for a line of the log.
    pub fn wait_for(&self, needle: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut said = String::new();
        while let Ok(line) = self.1.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(needle) {
                return;
            }
            said += &(line + "\n");
        }
        panic!("it did not say {needle:?} but:\n{said}");
    }

    /// Asks it to stop and not to wait for Kafka; returns its summary.
    pub fn stop(self) -> Value {
        self.end(true)
    }

    /// Asks it to stop once Kafka has everything; returns its summary.
    pub fn finish(self) -> Value {
        self.end(false)
    }

    fn end(mut self, at_once: bool) -> Value {
        let pid = self.0.id().to_string();
        let deadline = Instant::now() + Duration::from_secs(60);
        let ask = || assert!(Command::new("kill").args(["-TERM", &pid]).status().is_ok());
        ask();
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::sleep(Duration::from_millis(100));
            if at_once {
                ask();
            }
        }
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let summary = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text:?}"));
        assert_balanced(&summary, "live");
        summary
    }
}

/// Packets of an interface, both directions.
pub fn counted(net: &Net, interface: &str) -> u64 {
    let output = net.inside(&net.names[0], "cat").arg("/proc/net/dev").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:"))).unwrap();
    let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap()).collect();
    fields[1] + fields[9]
}

pub fn ping(net: &Net, side: usize, target: &str, count: u32) {
    let output = net
        .inside(&net.names[side], "ping")
        .args(["-q", "-c", &count.to_string(), "-i", "0.002", "-s", "100", target])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
