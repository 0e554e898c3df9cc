package io.weir.jobs;

import io.weir.jobs.indicators.Indicators;
import io.weir.jobs.mixes.Mixes;
import io.weir.jobs.table.Table;
import io.weir.jobs.table.Tables;
import io.weir.jobs.topn.Topn;
import io.weir.jobs.window.WindowTable;
import java.util.List;
import java.util.stream.Stream;

/** The tables of windows, each declared with the job that writes it. */
public final class WindowTables implements Tables {
  /** Their declarations. */
  static List<WindowTable<?, ?>> all() {
    return Stream.of(Topn.tables(), Mixes.tables(), Indicators.tables())
        .flatMap(List::stream)
        .toList();
  }

  @Override
  public List<Table> tables() {
    return all().stream().<Table>map(WindowTable::table).toList();
  }
}
