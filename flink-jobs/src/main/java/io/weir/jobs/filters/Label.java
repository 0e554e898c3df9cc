package io.weir.jobs.filters;

import java.util.Comparator;

/** The unit of counting: a label within a set. */
record Label(String set, String label) implements Comparable<Label> {
  private static final Comparator<Label> ORDER =
      Comparator.comparing(Label::set).thenComparing(Label::label);

  @Override
  public int compareTo(Label other) {
    return ORDER.compare(this, other);
  }
}
