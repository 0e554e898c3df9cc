package io.weir.jobs.sink;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** A secret that is read where it is used: no state and no web page of the jobs holds it. */
@FunctionalInterface
public interface Secret extends Serializable {
  /** The secret; empty if there is none. Throws IOException if its file cannot be read. */
  String read() throws IOException;

  /**
   * The secret in the file that the variable {@code <name>_FILE} names, else in the variable {@code
   * name} of the process that reads it.
   */
  static Secret named(String name, Map<String, String> environment) {
    String file = environment.getOrDefault(name + "_FILE", "");
    if (file.isEmpty()) {
      return () -> System.getenv().getOrDefault(name, "");
    }
    return () -> Files.readString(Path.of(file)).strip();
  }
}
