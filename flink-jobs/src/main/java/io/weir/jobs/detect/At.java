package io.weir.jobs.detect;

import java.util.Comparator;

/**
 * What a memory is about: a subject, as one probe sees it, or as all do.
 *
 * @param probe empty for all
 */
record At(Subject subject, String probe) implements Comparable<At> {
  private static final Comparator<At> ORDER =
      Comparator.comparing(At::subject).thenComparing(At::probe);

  @Override
  public int compareTo(At other) {
    return ORDER.compare(this, other);
  }
}
