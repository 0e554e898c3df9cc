package io.weir.jobs.table;

import java.util.List;

/**
 * Tables that are declared elsewhere, found as a service: an operator that reads a row must know
 * its table, whichever job made it, while this package knows no job.
 */
public interface Tables {
  List<Table> tables();
}
