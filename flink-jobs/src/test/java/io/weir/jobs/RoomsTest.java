package io.weir.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The packages import one another in one direction. */
class RoomsTest {
  private static final Path MAIN = Path.of("src/main/java/io/weir/jobs");
  private static final Pattern IMPORT =
      Pattern.compile("^import (?:static )?io\\.weir\\.jobs\\.([a-z.]*?)\\.?[A-Z]", 8);

  /** For each package, the packages that it imports; the root has the empty name. */
  private static Map<String, Set<String>> imports() throws IOException {
    Map<String, Set<String>> imports = new TreeMap<>();
    for (Path file : sources()) {
      String room = MAIN.relativize(file.getParent()).toString().replace('/', '.');
      Set<String> into = imports.computeIfAbsent(room, key -> new TreeSet<>());
      Matcher matcher = IMPORT.matcher(Files.readString(file));
      while (matcher.find()) {
        into.add(matcher.group(1));
      }
      into.remove(room);
    }
    return imports;
  }

  private static List<Path> sources() throws IOException {
    try (Stream<Path> files = Files.walk(MAIN)) {
      return files.filter(path -> path.toString().endsWith(".java")).toList();
    }
  }

  @Test
  void noPackageReachesItselfByWhatItImports() throws IOException {
    Map<String, Set<String>> imports = imports();
    assertTrue(imports.get("").contains("topn"), "finds imports at all: " + imports);
    for (String room : imports.keySet()) {
      Set<String> reached = new TreeSet<>();
      Deque<String> next = new ArrayDeque<>(imports.get(room));
      while (!next.isEmpty()) {
        String name = next.pop();
        if (reached.add(name)) {
          next.addAll(imports.getOrDefault(name, Set.of()));
        }
      }
      assertTrue(!reached.contains(room), "a circle through '" + room + "': " + imports);
    }
  }

  @Test
  void theSourceKnowsNoJob() throws IOException {
    assertEquals(Set.of("kafka", "message", "metrics", "serde"), imports().get("source"));
  }

  @Test
  void everyMetricIsRegisteredByItsDeclaration() throws IOException {
    Pattern byName = Pattern.compile("\\.(counter|gauge)\\(\\s*\"");
    for (Path file : sources()) {
      String text =
          Files.readString(file).replace("Metric.counter(", "").replace("Metric.gauge(", "");
      assertTrue(!byName.matcher(text).find(), file + " registers a metric by its name");
    }
    Set<String> names = new TreeSet<>();
    Docs.metrics().forEach(metric -> assertTrue(names.add(metric.name()), metric.name()));
    assertTrue(names.contains("received_records"));
  }
}
