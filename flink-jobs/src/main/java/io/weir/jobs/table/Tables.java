package io.weir.jobs.table;

import java.util.List;

/**
 * Tables that are declared elsewhere, found as a service: an operator that reads a row must know
 * its table, whichever job declared it, while this package does not depend on any job.
 */
public interface Tables {
  List<Table> tables();
}
