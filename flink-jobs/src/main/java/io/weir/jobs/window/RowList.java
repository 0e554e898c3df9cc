package io.weir.jobs.window;

import io.weir.jobs.table.Table;
import java.util.List;

/**
 * A list of one window: its sorted rows.
 *
 * @param table for which the rows are
 * @param name of the list in its table, the same for every version; unique in the window
 * @param rows cells by the table's columns, with nothing in the columns that all lists have: {@code
 *     ts}, {@code window_s}, {@code probe}, {@code rank}, {@code version}, {@code probes_reported},
 *     {@code probes_expected}
 * @param empty a row that replaces a removed one; its cells other than the columns above identify
 *     the list
 */
public record RowList(Table table, String name, List<Object[]> rows, Object[] empty) {}
