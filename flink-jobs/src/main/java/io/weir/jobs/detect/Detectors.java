package io.weir.jobs.detect;

import java.util.List;

/**
 * The registry of detectors; a new one is a class, a line here and its memories in {@link
 * Memories}.
 */
final class Detectors {
  private Detectors() {}

  /** All detectors, in the order of their ids. */
  static List<Detector<?>> all() {
    return List.of(new Scan(), new SynFlood(), new Reflection(), new Guessing());
  }
}
