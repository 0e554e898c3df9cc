package io.weir.jobs.ledger;

/** Values of the column {@code state}. */
enum LedgerState {
  CLOSED(1),
  BATCHES_MISSING(2),
  CLOSING_MISSING(3),
  MISSING(4),
  STOPPED(5);

  private final int number;

  LedgerState(int number) {
    this.number = number;
  }

  int number() {
    return number;
  }
}
