package io.weir.jobs;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Checkpoints that earlier runs left on a local disk, as Flink lays them out: {@code <job
 * id>/chk-<n>/_metadata}, written last, when the checkpoint is complete.
 */
final class Checkpoints {
  private static final Pattern JOB = Pattern.compile("[0-9a-f]{32}");
  private static final Pattern CHECKPOINT = Pattern.compile("chk-\\d+");

  private Checkpoints() {}

  /** The newest complete checkpoint under {@code directory}. */
  static Optional<Path> newest(Path directory) throws IOException {
    try (Stream<Path> metadata = Files.find(directory, 3, (path, attributes) -> complete(path))) {
      return metadata.map(Path::getParent).max(Comparator.comparing(Checkpoints::written));
    }
  }

  /** Removes checkpoints that runs other than that of {@code kept} left. */
  static void removeOthers(Path directory, Path kept) throws IOException {
    List<Path> others;
    try (Stream<Path> jobs = Files.list(directory)) {
      others =
          jobs.filter(path -> JOB.matcher(path.getFileName().toString()).matches())
              .filter(path -> !kept.startsWith(path))
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
    return text.startsWith("file:") ? Path.of(URI.create(text).getPath()) : Path.of(text);
  }

  private static boolean complete(Path path) {
    return path.endsWith("_metadata")
        && CHECKPOINT.matcher(path.getParent().getFileName().toString()).matches();
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
      return new Written(time, Long.parseLong(checkpoint.getFileName().toString().substring(4)));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
