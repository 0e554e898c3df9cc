package io.weir.jobs.graph;

import io.weir.jobs.kafka.Brokers;
import io.weir.jobs.privacy.Privacy;
import io.weir.jobs.sink.ClickHouse;
import io.weir.jobs.sink.Secret;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import java.util.stream.Collectors;

/** The parsed command line. Every option except {@code --checkpoints} has a default. */
public final class Options {
  /**
   * Environment variable that holds the password of {@code --user}: this and the user's name in
   * capitals.
   */
  public static final String PASSWORD = "WEIR_PASSWORD_";

  /** One option: its name, the form of its value, its default and its purpose. */
  public record Option(String name, String value, String defaultValue, String what) {}

  private static final String JOBS = "jobs";
  private static final String AUTO = "auto";
  private static final int LEAST_FLOWS = 10_000;
  private static final int MOST_FLOWS = 1_000_000_000;

  /**
   * Heap for each flow that windows keep. An entry takes some 80 octets; the rest is for digests,
   * state that is being written, and everything else.
   */
  private static final int OCTETS_OF_FLOW = 400;

  private static final List<Option> OTHERS =
      List.of(
          new Option(
              "brokers", "HOST:PORT", "127.0.0.1:9092", "Kafka brokers, separated by commas"),
          new Option(
              "kafka-properties",
              "FILE",
              "",
              "Properties by which the jobs log in to Kafka, as Kafka's own clients read them"),
          new Option(
              "group",
              "NAME",
              "weir",
              "Consumer group under which the jobs commit the offsets they have read"),
          new Option("topics", "REGEX", ".+", "Probes whose topics are read"),
          new Option("clickhouse", "URL", "http://127.0.0.1:8123", "ClickHouse's HTTP interface"),
          new Option("database", "NAME", "weir", "Database in ClickHouse"),
          new Option(
              "user",
              "NAME",
              "writer",
              "User of ClickHouse; its password: in the file that WEIR_PASSWORD_<USER>_FILE names"),
          new Option(
              "checkpoints",
              "DIR",
              "",
              "Where the jobs keep state and pending rows; one directory per process"),
          new Option("checkpoint-interval", "TIME", "3s", "How often rows are stored"),
          new Option("parallelism", "N", "2", "Subtasks of each operator"),
          new Option(
              "start",
              "committed|earliest|latest",
              "committed",
              "Where to start reading without state; committed: earliest if there is none"),
          new Option(
              "resume",
              "latest|none|PATH",
              "latest",
              "State to resume from: the newest checkpoint or savepoint, none, or a path (`flink run`: use -s)"),
          new Option(
              "sink",
              "clickhouse|count",
              "clickhouse",
              "Where rows go; count: only count them, for measurements"),
          new Option("listen", "ADDRESS", "127.0.0.1", "Address on which the next two listen"),
          new Option(
              "rest-port",
              "PORT",
              "8081",
              "Flink's REST interface and web page (not with `flink run`)"),
          new Option("metrics-port", "PORT", "9249", "Prometheus metrics (not with `flink run`)"),
          new Option(
              "as-database",
              "PATH",
              "",
              "Autonomous systems of addresses, in MaxMind's format; reloaded when it changes"),
          new Option("country-database", "PATH", "", "Countries of addresses, likewise"),
          new Option(
              "privacy-key",
              "FILE",
              "",
              "Master key of the pseudonyms (Crypto-PAn) that take the place of addresses once these are looked up; none: addresses stay"),
          new Option(
              "privacy-period",
              "TIME",
              "7d",
              "How long one key is used; 0s: the master key itself, for ever"),
          new Option(
              "privacy-names",
              "drop|keep",
              "drop",
              "With pseudonyms: whether records keep names of servers, DNS, subscribers and interfaces, and MAC addresses"),
          new Option("window", "TIME", "30s", "Window of topn and indicators"),
          new Option("mix-window", "TIME", "5m", "Window of mixes, a multiple of --window"),
          new Option(
              "top",
              "N",
              "50",
              "Rows of a list of topn and indicators, 10 to 100; in lists of talkers by each of octets, packets and flows"),
          new Option("port-report", "N", "1000", "Hosts of a TCP port report"),
          new Option(
              "mix-top",
              "N",
              "50",
              "Applications, customers, or pairs of AS and application, of a mix; the rest is one row"),
          new Option("mix-top-as", "N", "20", "AS of a mix; the rest is one row"),
          new Option(
              "window-flows",
              "N",
              AUTO,
              "Flows that windows keep individually, each for both of its ends; the rest are aggregated. "
                  + AUTO
                  + ": a flow for each "
                  + OCTETS_OF_FLOW
                  + " octets of Java's heap"),
          new Option(
              "answer-timeout",
              "TIME",
              "10s",
              "How long an answer to a SYN may take before the contact counts as failed"),
          new Option(
              "national-delay",
              "TIME",
              "15s",
              "How long after its end a window over all probes waits for probes"),
          new Option("discovery-interval", "TIME", "5s", "How often to look for new probes"),
          new Option(
              "max-pending",
              "SIZE",
              "1GiB",
              "Compressed rows that may wait for ClickHouse before the source pauses, or for a checkpoint before the job restarts"),
          new Option(
              "retry-for",
              "TIME",
              "7d",
              "How long ClickHouse remembers a block; after a restart the jobs do not retry older ones"));

  /** The command line is wrong; the message is one line for the user. */
  public static final class BadOption extends Exception {
    private static final long serialVersionUID = 1;

    public BadOption(String message) {
      super(message);
    }
  }

  /** The chosen jobs, in the order of the registry. */
  public final List<Job> jobs;

  public final Brokers brokers;
  public final String group;
  public final String topics;
  public final ClickHouse.Endpoint clickhouse;
  public final String checkpoints;
  public final Duration checkpointInterval;
  public final int parallelism;
  public final String start;
  public final String resume;
  public final boolean counting;
  public final String listen;
  public final int restPort;
  public final int metricsPort;
  public final String asDatabase;
  public final String countryDatabase;
  public final Privacy privacy;
  public final Duration window;
  public final Duration mixWindow;
  public final int top;
  public final int portReport;
  public final int mixTop;
  public final int mixTopAs;
  public final int windowFlows;
  public final Duration answerTimeout;
  public final Duration nationalDelay;
  public final Duration discoveryInterval;
  public final long maxPending;
  public final Duration retryFor;

  private Options(Map<String, String> values, Map<String, String> environment, List<Job> all)
      throws BadOption {
    jobs = jobs(values.get(JOBS), all);
    String login = values.get("kafka-properties");
    brokers = new Brokers(values.get("brokers"), login);
    if (!brokers.complaint().isEmpty()) {
      throw new BadOption("--kafka-properties " + login + ": " + brokers.complaint());
    }
    group = values.get("group");
    topics = values.get("topics");
    try {
      Pattern.compile(topics);
    } catch (PatternSyntaxException e) {
      throw new BadOption("--topics is not a regular expression: " + e.getDescription());
    }
    String url = values.get("clickhouse").replaceAll("/+$", "");
    checkUrl(url);
    String user = values.get("user");
    String variable = PASSWORD + user.toUpperCase(Locale.ROOT);
    Secret password = Secret.named(variable, environment);
    clickhouse = new ClickHouse.Endpoint(url, values.get("database"), user, password);
    checkpoints = values.get("checkpoints");
    if (checkpoints.isEmpty()) {
      throw new BadOption("--checkpoints is missing: a directory for state and pending rows");
    }
    checkpointInterval = duration("checkpoint-interval", values);
    parallelism = number("parallelism", values, 1, 1024);
    start = oneOf("start", values, "committed", "earliest", "latest");
    resume = values.get("resume");
    counting = oneOf("sink", values, "clickhouse", "count").equals("count");
    listen = values.get("listen");
    restPort = number("rest-port", values, 0, 65535);
    metricsPort = number("metrics-port", values, 0, 65535);
    asDatabase = values.get("as-database");
    countryDatabase = values.get("country-database");
    privacy = privacy(values);
    window = duration("window", values);
    if (window.toMillis() % 30_000 != 0 || window.toSeconds() > 0xffff) {
      throw new BadOption(
          "--window is a multiple of 30s (every interval length divides that), up to 18h");
    }
    mixWindow = duration("mix-window", values);
    if (mixWindow.toMillis() % window.toMillis() != 0) {
      throw new BadOption("--mix-window is a multiple of --window");
    }
    top = number("top", values, 10, 100);
    portReport = number("port-report", values, 1, 60_000);
    mixTop = number("mix-top", values, 1, 10_000);
    mixTopAs = number("mix-top-as", values, 1, 10_000);
    windowFlows =
        values.get("window-flows").equals(AUTO)
            ? windowFlows(Runtime.getRuntime().maxMemory())
            : number("window-flows", values, LEAST_FLOWS, MOST_FLOWS);
    answerTimeout = duration("answer-timeout", values);
    if (answerTimeout.compareTo(window) >= 0) {
      throw new BadOption("--answer-timeout must be shorter than --window");
    }
    nationalDelay = duration("national-delay", values);
    discoveryInterval = duration("discovery-interval", values);
    maxPending = size("max-pending", values);
    retryFor = duration("retry-for", values);
  }

  private static Privacy privacy(Map<String, String> values) throws BadOption {
    String file = values.get("privacy-key");
    boolean names = oneOf("privacy-names", values, "drop", "keep").equals("keep");
    long period =
        values.get("privacy-period").equals("0s")
            ? 0
            : duration("privacy-period", values).toMillis();
    if (period > 0 && period < 60_000) {
      throw new BadOption("--privacy-period is 0s, or at least 1m");
    }
    if (file.isEmpty()) {
      return Privacy.OFF;
    }
    Privacy privacy = new Privacy(file, period, names);
    try {
      privacy.master();
    } catch (IOException e) {
      throw new BadOption("--privacy-key: " + e.getMessage());
    }
    return privacy;
  }

  /** The flows that windows keep in a heap of this many octets. */
  static int windowFlows(long heap) {
    return (int) Math.max(LEAST_FLOWS, Math.min(MOST_FLOWS, heap / OCTETS_OF_FLOW));
  }

  /** All options, given all jobs. */
  public static List<Option> all(List<Job> jobs) {
    List<Option> options = new ArrayList<>();
    String names = jobs.stream().map(Job::name).collect(Collectors.joining(","));
    options.add(
        new Option(JOBS, "NAMES", names, "Jobs to run in this process, separated by commas"));
    options.addAll(OTHERS);
    return options;
  }

  /**
   * Reads arguments.
   *
   * @param environment for the password
   * @param all all jobs of the registry
   */
  public static Options parse(String[] arguments, Map<String, String> environment, List<Job> all)
      throws BadOption {
    Map<String, String> values = new LinkedHashMap<>();
    for (Option option : all(all)) {
      values.put(option.name(), option.defaultValue());
    }
    for (int i = 0; i < arguments.length; i++) {
      String argument = arguments[i];
      int equals = argument.indexOf('=');
      String name = equals < 0 ? argument : argument.substring(0, equals);
      if (!name.startsWith("--") || !values.containsKey(name.substring(2))) {
        throw new BadOption("no such option: " + name + " (see --help)");
      }
      if (equals < 0 && i + 1 == arguments.length) {
        throw new BadOption(name + " needs a value");
      }
      values.put(name.substring(2), equals < 0 ? arguments[++i] : argument.substring(equals + 1));
    }
    return new Options(values, environment, all);
  }

  /** {@code path} as Flink writes one: it takes a bare path for one of its default file system. */
  public static String uri(String path) {
    if (path.matches("[a-z][a-z0-9+.-]+:.*")) {
      return path.replaceAll("/+$", "");
    }
    return uri(Path.of(path));
  }

  /** The same of a local path. Flink does not decode: {@code a%20b} would be another folder. */
  public static String uri(Path path) {
    return "file://" + path.toAbsolutePath().normalize();
  }

  private static List<Job> jobs(String text, List<Job> all) throws BadOption {
    Set<String> names = new TreeSet<>();
    for (String word : text.split(",", -1)) {
      String name = word.strip().toLowerCase(Locale.ROOT);
      if (all.stream().noneMatch(job -> job.name().equals(name))) {
        throw new BadOption(
            "--jobs: no job is called '"
                + word
                + "'; there are "
                + all.stream().map(Job::name).collect(Collectors.joining(", ")));
      }
      names.add(name);
    }
    return all.stream().filter(job -> names.contains(job.name())).toList();
  }

  private static void checkUrl(String url) throws BadOption {
    try {
      URI uri = URI.create(url);
      if (uri.getHost() == null || uri.getScheme() == null || !uri.getScheme().matches("https?")) {
        throw new BadOption(
            "--clickhouse is a URL such as http://127.0.0.1:8123, not '" + url + "'");
      }
    } catch (IllegalArgumentException e) {
      throw new BadOption("--clickhouse is not a URL: " + e.getMessage());
    }
  }

  private static String oneOf(String name, Map<String, String> values, String... words)
      throws BadOption {
    String value = values.get(name);
    if (!List.of(words).contains(value)) {
      throw new BadOption(
          "--" + name + " is one of " + String.join(", ", words) + ", not '" + value + "'");
    }
    return value;
  }

  private static int number(String name, Map<String, String> values, int low, int high)
      throws BadOption {
    try {
      int number = Integer.parseInt(values.get(name));
      if (number >= low && number <= high) {
        return number;
      }
    } catch (NumberFormatException e) {
      // said below
    }
    throw new BadOption(
        "--"
            + name
            + " is a number from "
            + low
            + " to "
            + high
            + ", not '"
            + values.get(name)
            + "'");
  }

  private static final Pattern QUANTITY = Pattern.compile("(\\d{1,9})([a-zA-Z]*)");

  static Duration duration(String name, Map<String, String> values) throws BadOption {
    Matcher match = QUANTITY.matcher(values.get(name));
    if (match.matches()) {
      long number = Long.parseLong(match.group(1));
      Duration duration =
          switch (match.group(2)) {
            case "ms" -> Duration.ofMillis(number);
            case "s" -> Duration.ofSeconds(number);
            case "m", "min" -> Duration.ofMinutes(number);
            case "h" -> Duration.ofHours(number);
            case "d" -> Duration.ofDays(number);
            default -> Duration.ZERO;
          };
      if (!duration.isZero()) {
        return duration;
      }
    }
    throw new BadOption(
        "--" + name + " is a time such as 500ms, 3s, 5m, 2h, 7d, not '" + values.get(name) + "'");
  }

  private static long size(String name, Map<String, String> values) throws BadOption {
    Matcher match = QUANTITY.matcher(values.get(name));
    if (match.matches()) {
      long number = Long.parseLong(match.group(1));
      int shift =
          switch (match.group(2)) {
            case "KiB" -> 10;
            case "MiB" -> 20;
            case "GiB" -> 30;
            default -> -1;
          };
      if (shift > 0 && number > 0) {
        return number << shift;
      }
    }
    throw new BadOption(
        "--" + name + " is a size such as 512MiB or 1GiB, not '" + values.get(name) + "'");
  }

  /** The text of {@code --help}. */
  public static String help(List<Job> jobs) {
    List<String> lines = new ArrayList<>();
    lines.add("Weir's Flink jobs: from Kafka to ClickHouse.");
    lines.add("");
    lines.add(
        "  java -jar weir-flink-jobs.jar --checkpoints DIR [options]     in one process, with its own small cluster");
    lines.add("  flink run weir-flink-jobs.jar --checkpoints DIR [options]     on a Flink cluster");
    lines.add("");
    lines.add("Jobs:");
    for (Job job : jobs) {
      lines.add(String.format("  %-12s%s", job.name(), job.what()));
    }
    lines.add("");
    lines.add("Options:");
    for (Option option : all(jobs)) {
      String line = "  --" + option.name() + " " + option.value();
      String rest =
          option.what()
              + (option.defaultValue().isEmpty() ? "" : " [" + option.defaultValue() + "]");
      lines.add(
          String.format("%-34s%s", line, line.length() > 32 ? "\n" + " ".repeat(34) + rest : rest));
    }
    lines.add("  --help, --docs                  This text; options and metrics as Markdown");
    lines.add("");
    lines.add("Example:");
    lines.add(
        "  WEIR_PASSWORD_WRITER_FILE=/etc/weir/writer java -Xmx1g -jar weir-flink-jobs.jar \\");
    lines.add(
        "      --brokers 127.0.0.1:9092 --clickhouse http://127.0.0.1:8123 --checkpoints /var/lib/weir/flink");
    lines.add("");
    lines.add(
        "Exit status: 0 stopped, 1 failed, 2 wrong arguments. Ctrl-C or SIGTERM stops; the next start resumes");
    lines.add("from the newest checkpoint.");
    return String.join("\n", lines);
  }
}
