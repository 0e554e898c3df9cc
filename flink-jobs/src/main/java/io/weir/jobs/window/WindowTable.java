package io.weir.jobs.window;

import static io.weir.jobs.table.ColumnType.*;

import io.weir.jobs.table.ColumnType;
import io.weir.jobs.table.Table;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The declaration of a table of windows and of the view that shows its newest version. Each column
 * is declared once, with its type, its comment, its form in the view, the source of its value and
 * the plain-SQL expression that it must equal; statements, rows, the reference and the check are
 * generated from these.
 *
 * @param <W> data of a whole list, which rows that replace removed ones have, too
 * @param <T> the source of one row
 */
public final class WindowTable<W, T> {
  /** Values of {@code scope}. */
  static final int PROBE = 1;

  static final int ALL = 2;
  static final int CUSTOMER = 3;

  /** A step of the plain-SQL check: creates a table with that name from the SELECT. */
  public record Step(String name, String sql) {}

  /** A column shared by several tables, whose rows contain an {@code S}. */
  public record Figure<S>(
      ColumnType type, String name, String comment, Function<S, Object> value) {}

  private final int id;
  private final String name;
  private final List<WindowColumn<W, T>> columns = new ArrayList<>();
  private final List<Step> steps = new ArrayList<>();
  private final List<Cell<W>> wholes = new ArrayList<>();
  private final List<Cell<T>> values = new ArrayList<>();
  private String comment = "";
  private String shownWhere = "1";
  private String viewComment = "";
  private List<String> order = List.of();
  private int primary;
  private Table table;

  /** The position and the type of a cell in a row. */
  private record Cell<S>(int place, Function<S, Object> value) {}

  /** A function of a row and of the offset of a number in it. */
  public interface Numbers<T> {
    /** The number at that offset. */
    long of(T thing, int place);
  }

  /**
   * Begins a declaration.
   *
   * @param id the table's, see {@link Table#id}
   * @param length type of the window's length
   */
  public WindowTable(int id, String name, ColumnType length) {
    this.id = id;
    this.name = name;
    add(DATE_TIME, "ts", "Start of the window").codec = " CODEC(Delta, ZSTD(1))";
    add(length, "window_s", "Length of the window in seconds");
  }

  /** The comment on the table. */
  public WindowTable<W, T> comment(String what) {
    comment = what;
    return this;
  }

  // ---- columns ----

  private WindowColumn<W, T> add(ColumnType type, String columnName, String columnComment) {
    WindowColumn<W, T> column = new WindowColumn<>(columnName, type, columnComment);
    columns.add(column);
    return column;
  }

  private WindowColumn<W, T> last() {
    return columns.get(columns.size() - 1);
  }

  /** The scope of the rows: a probe, or all probes. */
  public WindowTable<W, T> scope(String what) {
    return scope("", what, "Name of the probe, empty for all");
  }

  /** The scope of the rows: a probe, all probes or a customer. */
  public WindowTable<W, T> customerScope(String what) {
    return customerScope(what, "Name of the probe, empty for all and for customers");
  }

  /** The same, with another comment on the probe. */
  public WindowTable<W, T> customerScope(String what, String probe) {
    return scope(", 'customer' = 3", what, probe);
  }

  private WindowTable<W, T> scope(String more, String what, String probe) {
    key(INT8, "scope", what, "Enum8('probe' = 1, 'all' = 2" + more + ")");
    key(STRING, "probe", probe, "LowCardinality(String)");
    return this;
  }

  /** A key column, of the same type in the view. */
  private WindowColumn<W, T> key(ColumnType type, String columnName, String what, String sqlType) {
    WindowColumn<W, T> column = add(type, columnName, what);
    column.sqlType = sqlType;
    column.viewType = sqlType;
    column.isKey = true;
    return column;
  }

  /** The customer of a scope; in the view its number and its name. */
  public WindowTable<W, T> customer(String what) {
    add(UINT32, "customer", what).isKey = true;
    return shownAsCustomer(
        "Customer whose list or sum it is, by number; 0 for those of no customer");
  }

  /**
   * The view shows the last column, the number of a customer, as {@code customer_id}, and its name.
   */
  public WindowTable<W, T> shownAsCustomer(String what) {
    return shown("customer_id", "UInt32", "t.customer", what)
        .check("customer")
        .viewed(
            "customer",
            "String",
            "dictGet('customer_names', 'customer', t.customer)",
            "Name of the customer, empty for none");
  }

  /**
   * A column whose values are declared one by one.
   *
   * @param what the beginning of the comment, before the meanings of the values
   */
  public WindowTable<W, T> listed(String columnName, String what, List<? extends Listed> listed) {
    Set<String> meanings = new LinkedHashSet<>();
    Map<Integer, String> names = new LinkedHashMap<>();
    for (Listed value : listed) {
      String other = names.put(value.id(), value.name());
      if (other != null) {
        throw new IllegalArgumentException(value.name() + " has the number of " + other);
      }
      if (!value.comment().isEmpty()) {
        meanings.add(value.group() + ": " + value.comment());
      }
    }
    String all = what + (what.isEmpty() || meanings.isEmpty() ? "" : ". ");
    String sqlType =
        names.entrySet().stream()
            .map(value -> "'" + value.getValue() + "' = " + value.getKey())
            .collect(Collectors.joining(", ", "Enum8(", ")"));
    key(INT8, columnName, all + String.join(". ", meanings), sqlType).values = listed;
    return this;
  }

  /** A column whose values are the constants of an enum, by their order. */
  public WindowTable<W, T> listed(String columnName, String what, Enum<?>[] listed) {
    String sqlType =
        Arrays.stream(listed)
            .map(value -> "'" + value.name().toLowerCase(Locale.ROOT) + "' = " + value.ordinal())
            .collect(Collectors.joining(", ", "Enum8(", ")"));
    key(INT8, columnName, what, sqlType);
    return this;
  }

  /** The rank in the list. */
  public WindowTable<W, T> rank(String what) {
    add(UINT16, "rank", what).isKey = true;
    return this;
  }

  /** How often the window was computed. */
  public WindowTable<W, T> version() {
    add(
        UINT32,
        "version",
        "Number of times that the window was computed; the row with the highest number counts");
    return said("Number of times that the window was computed; the view shows the newest version");
  }

  /** How complete the window was. */
  public WindowTable<W, T> probes() {
    add(UINT32, "probes_reported", "Probes whose window was complete when the row was computed");
    add(UINT32, "probes_expected", "Probes that were enrolled");
    return this;
  }

  /** A column of each row. The check compares it with the plain-SQL column of the same name. */
  public WindowTable<W, T> column(
      ColumnType type, String columnName, String what, Function<T, Object> value) {
    checked(type, columnName, what).value = value;
    return this;
  }

  /** Columns of layer-3 octets and of packets. */
  public WindowTable<W, T> volume(
      String prefix, String what, Function<T, Object> octets, Function<T, Object> packets) {
    return column(UINT64, prefix + "octets", "Layer-3 octets " + what, octets)
        .column(UINT64, prefix + "packets", "Packets " + what, packets);
  }

  /**
   * Columns of numbers that each row has one after the other.
   *
   * @param namesAndComments of the first number, the second, ...
   */
  public WindowTable<W, T> numbers(Numbers<T> numbers, String... namesAndComments) {
    for (int i = 0; i < namesAndComments.length; i += 2) {
      int place = i / 2;
      column(UINT64, namesAndComments[i], namesAndComments[i + 1], row -> numbers.of(row, place));
    }
    return this;
  }

  /** Columns of the part that {@code part} takes from each row. */
  @SafeVarargs
  public final <S> WindowTable<W, T> columns(Function<T, S> part, Figure<S>... figures) {
    for (Figure<S> figure : figures) {
      column(figure.type, figure.name, figure.comment, part.andThen(figure.value));
    }
    return this;
  }

  /** A column that is the same in all rows of a list. */
  public WindowTable<W, T> whole(
      ColumnType type, String columnName, String what, Function<W, Object> value) {
    checked(type, columnName, what).whole = value;
    return this;
  }

  private WindowColumn<W, T> checked(ColumnType type, String columnName, String what) {
    WindowColumn<W, T> column = add(type, columnName, what);
    column.check = columnName;
    return column;
  }

  /** A column that only the view has: an expression over {@code t}, the table. */
  public WindowTable<W, T> viewed(String columnName, String sqlType, String sql, String what) {
    WindowColumn<W, T> column = add(null, columnName, what);
    column.viewType = sqlType;
    column.viewSql = sql;
    return this;
  }

  // ---- properties of the last column ----

  /** The view shows the column in another form. */
  public WindowTable<W, T> shown(String columnName, String sqlType, String sql, String what) {
    last().viewName = columnName;
    last().viewType = sqlType;
    last().viewSql = sql;
    return said(what);
  }

  /** The view shows the last column, the address of a host, also as text, as {@code host}. */
  public WindowTable<W, T> shownAsHost() {
    return viewed("host", "String", "weir_addr(t.addr)", "Address of the host, IPv4 as IPv4");
  }

  /** The view has another comment on the column. */
  public WindowTable<W, T> said(String what) {
    last().viewComment = what;
    return this;
  }

  /** The view does not show the column. */
  public WindowTable<W, T> hidden() {
    last().shown = false;
    last().check = "";
    return this;
  }

  /**
   * The expression over the last plain-SQL step with which the check compares the view's column.
   */
  public WindowTable<W, T> check(String sql) {
    last().check = sql;
    return this;
  }

  /** The check does not compare the column: plain SQL gives no expected value. */
  public WindowTable<W, T> unchecked() {
    return check("");
  }

  // ---- the rest ----

  /**
   * A description of the view, for people; the view shows the rows for which {@code where} holds.
   */
  public WindowTable<W, T> view(String where, String what) {
    shownWhere = where;
    viewComment = what;
    return this;
  }

  /**
   * Sorting key behind the window's start and length, scope and probe.
   *
   * @param primaryColumns how many of all these are the primary key
   */
  public WindowTable<W, T> order(int primaryColumns, String... names) {
    primary = primaryColumns;
    order = Stream.concat(Stream.of("ts", "window_s", "scope", "probe"), Stream.of(names)).toList();
    return this;
  }

  /**
   * A step of the plain-SQL check before the last. {@code {top}}, {@code {report}} and {@code
   * {window}} stand for the values of the options.
   */
  public WindowTable<W, T> step(String stepName, String sql) {
    steps.add(new Step(stepName, sql));
    return this;
  }

  /**
   * Ends the declaration.
   *
   * @param sql last step of the plain-SQL check, with the name of the table
   */
  public WindowTable<W, T> declared(String sql) {
    step(name, sql);
    List<Table.Column> written = new ArrayList<>();
    for (WindowColumn<W, T> column : columns) {
      if (column.whole != null) {
        wholes.add(new Cell<>(written.size(), column.whole));
      }
      if (column.value != null) {
        values.add(new Cell<>(written.size(), column.value));
      }
      if (column.type != null) {
        written.add(new Table.Column(column.name, column.type));
      }
    }
    table = new Table(id, name, false, written);
    return this;
  }

  /** The table as jobs write it. */
  public Table table() {
    return table;
  }

  /** The comment on the table. */
  public String comment() {
    return comment;
  }

  /** The lists or dimensions that the table has rows of. */
  public List<Listed> values() {
    List<Listed> listed = new ArrayList<>();
    columns.forEach(column -> listed.addAll(column.values));
    return listed;
  }

  // ---- rows ----

  /** A row with only its scope and the data of its whole list. */
  public Object[] row(int customer, boolean national, W whole) {
    Object[] row = new Object[table.columns().size()];
    table.set(row, "scope", customer != 0 ? CUSTOMER : national ? ALL : PROBE);
    if (columns.stream().anyMatch(column -> column.isKey && column.name.equals("customer"))) {
      table.set(row, "customer", Integer.toUnsignedLong(customer));
    }
    fill(row, wholes, whole);
    return row;
  }

  /** A copy of a row, completed with the data of one item of the list. */
  public Object[] row(Object[] ofList, T thing) {
    Object[] row = ofList.clone();
    fill(row, values, thing);
    return row;
  }

  private static <S> void fill(Object[] row, List<Cell<S>> cells, S from) {
    for (Cell<S> cell : cells) {
      row[cell.place] = cell.value.apply(from);
    }
  }

  // ---- results of the declaration ----

  /** Name of the view. */
  public String view() {
    return "v_" + name;
  }

  /** The statements that create the table and its view. */
  public Statements statements() {
    List<Statements.Column> all =
        columns.stream()
            .map(
                column ->
                    new Statements.Column(
                        column.type == null ? "" : column.name,
                        column.sqlType,
                        column.comment,
                        column.codec,
                        !column.values.isEmpty(),
                        column.shown ? column.viewName : "",
                        column.viewType,
                        column.viewSql,
                        column.viewComment))
            .toList();
    return new Statements(name, comment, all, order, primary, view(), viewComment, shownWhere);
  }

  /** The plain-SQL steps whose last one computes the view's expected rows. */
  public List<Step> steps() {
    return List.copyOf(steps);
  }

  /** The columns that identify a row within a window. */
  public List<String> key() {
    return columns.stream()
        .filter(column -> column.isKey && column.shown)
        .map(column -> column.viewName)
        .toList();
  }

  /** The columns that are compared: name in the view, expression over the last step. */
  public Map<String, String> compared() {
    Map<String, String> compared = new LinkedHashMap<>();
    for (WindowColumn<W, T> column : columns) {
      if (!column.check.isEmpty()) {
        compared.put(column.viewName, column.check);
      }
    }
    return compared;
  }
}
