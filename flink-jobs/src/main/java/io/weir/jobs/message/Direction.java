package io.weir.jobs.message;

/**
 * A flow's direction, seen from its probe's site or from the nation. It is the initiator's
 * direction: a connection opened from inside is {@link #OUT}, even if most packets then come back
 * in.
 */
public enum Direction {
  /** An end is unknown, or no prefix is declared as inside. */
  UNKNOWN,
  /** From inside to outside. */
  OUT,
  /** From outside to inside. */
  IN,
  /** Both ends are inside. */
  INTERNAL,
  /** Both ends are outside. */
  TRANSIT;

  /** Seen from the site; {@code ends} as in {@link Enrichment#ends}. */
  public static Direction ofSite(int ends) {
    return of(ends, Enrichment.SITE_KNOWN, Enrichment.SRC_AT_SITE, Enrichment.DST_AT_SITE);
  }

  /** Seen from the nation. */
  public static Direction ofNation(int ends) {
    return of(ends, Enrichment.NATION_KNOWN, Enrichment.SRC_NATIONAL, Enrichment.DST_NATIONAL);
  }

  /** The direction of the replies. */
  public Direction back() {
    return this == OUT ? IN : this == IN ? OUT : this;
  }

  private static Direction of(int ends, int known, int src, int dst) {
    if ((ends & known) == 0) {
      return UNKNOWN;
    }
    boolean from = (ends & src) != 0;
    boolean to = (ends & dst) != 0;
    return from ? to ? INTERNAL : OUT : to ? IN : TRANSIT;
  }
}
