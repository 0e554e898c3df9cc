package io.weir.jobs.enrich;

import io.weir.jobs.enrich.AddressFile.Content;
import io.weir.jobs.enrich.AddressFile.Kind;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Watches a file that {@link AddressFile} reads. It reads a new file once two checks find it
 * unchanged, so that it never reads a half-written file; it ignores a broken file and keeps the
 * previous data.
 */
final class WatchedFile {
  private static final Logger LOG = LoggerFactory.getLogger(WatchedFile.class);

  private final Path path;
  private final Kind kind;
  private final Consumer<Content> taker;
  private final Refusals refusals;
  private String seen = "";
  private String tried = "";

  WatchedFile(Path path, Kind kind, Consumer<Content> taker, Refusals refusals) {
    this.path = path;
    this.kind = kind;
    this.taker = taker;
    this.refusals = refusals;
  }

  /** Checks the file, and reads it if it is new; the first check reads it immediately. */
  void look() {
    String state = state();
    boolean steady = seen.isEmpty() || seen.equals(state);
    seen = state;
    if (!steady || state.equals(tried)) {
      return;
    }
    tried = state;
    try {
      Content content = AddressFile.read(path, kind);
      taker.accept(content);
      LOG.info("read {}: {} ranges of addresses", path, content.map().ranges());
    } catch (IOException e) {
      refusals.add(
          Refusals.BROKEN_FILE,
          "ignored {}: {}; the previous data stays in use",
          path,
          e.getMessage());
    }
  }

  private String state() {
    try {
      BasicFileAttributes now = Files.readAttributes(path, BasicFileAttributes.class);
      return now.fileKey() + " " + now.size() + " " + now.lastModifiedTime();
    } catch (IOException e) {
      return "gone";
    }
  }
}
