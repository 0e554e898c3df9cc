package io.weir.jobs.window;

import io.weir.jobs.table.Table;
import java.util.List;

/**
 * A list of one window: its rows in their order.
 *
 * @param table where they go
 * @param name of the list in its table, the same for every version; unique in the window
 * @param rows cells by the table's columns, with nothing in the columns that all lists have: {@code
 *     ts}, {@code window_s}, {@code probe}, {@code rank}, {@code version}, {@code probes_reported},
 *     {@code probes_expected}
 * @param empty a row that stands where a list has become shorter: what is in it beside the columns
 *     above says which list it is
 */
public record RowList(Table table, String name, List<Object[]> rows, Object[] empty) {}
