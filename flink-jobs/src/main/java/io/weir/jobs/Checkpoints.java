package io.weir.jobs;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Checkpoints and savepoints that earlier runs left on a local disk, as Flink lays them out: {@code
 * <job id>/chk-<n>/_metadata} and {@code savepoint-<id>/_metadata}, written last, when the state is
 * complete.
 */
final class Checkpoints {
  private static final Pattern JOB = Pattern.compile("[0-9a-f]{32}");
  private static final Pattern CHECKPOINT = Pattern.compile("chk-(\\d+)");
  private static final Pattern SAVEPOINT = Pattern.compile("savepoint-[0-9a-f]{6}-[0-9a-f]{12}");

  private Checkpoints() {}

  /** The newest complete checkpoint or savepoint under {@code directory}. */
  static Optional<Path> newest(Path directory) throws IOException {
    return newest(directory, CHECKPOINT, SAVEPOINT);
  }

  private static Optional<Path> newest(Path directory, Pattern... names) throws IOException {
    try (Stream<Path> metadata =
        Files.find(directory, 3, (path, attributes) -> complete(path, names))) {
      return metadata.map(Path::getParent).max(Comparator.comparing(Checkpoints::written));
    }
  }

  /** Whether that is a savepoint, which the jobs leave where it is. */
  static boolean isSavepoint(Path state) {
    return SAVEPOINT.matcher(state.getFileName().toString()).matches();
  }

  /**
   * Removes checkpoints that runs other than that of {@code kept} left, and all savepoints but the
   * newest.
   */
  static void removeOthers(Path directory, Path kept) throws IOException {
    Optional<Path> savepoint = newest(directory, SAVEPOINT);
    List<Path> others;
    try (Stream<Path> entries = Files.list(directory)) {
      others =
          entries
              .filter(
                  path -> JOB.matcher(path.getFileName().toString()).matches() || isSavepoint(path))
              .filter(path -> !kept.startsWith(path) && !savepoint.equals(Optional.of(path)))
              .toList();
    }
    for (Path other : others) {
      try (Stream<Path> tree = Files.walk(other)) {
        for (Path path : tree.sorted(Comparator.reverseOrder()).toList()) {
          Files.deleteIfExists(path);
        }
      }
    }
  }

  /** The directory that {@code text}, a path or a file: URI, names. */
  static Path local(String text) {
    return Path.of(new org.apache.flink.core.fs.Path(text).getPath());
  }

  private static boolean complete(Path path, Pattern... names) {
    return path.endsWith("_metadata")
        && Arrays.stream(names)
            .anyMatch(name -> name.matcher(path.getParent().getFileName().toString()).matches());
  }

  private record Written(long time, long number) implements Comparable<Written> {
    @Override
    public int compareTo(Written other) {
      return time != other.time
          ? Long.compare(time, other.time)
          : Long.compare(number, other.number);
    }
  }

  private static Written written(Path checkpoint) {
    try {
      long time = Files.getLastModifiedTime(checkpoint.resolve("_metadata")).toMillis();
      Matcher number = CHECKPOINT.matcher(checkpoint.getFileName().toString());
      return new Written(time, number.matches() ? Long.parseLong(number.group(1)) : Long.MAX_VALUE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
