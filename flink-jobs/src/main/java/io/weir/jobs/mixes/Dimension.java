package io.weir.jobs.mixes;

import io.weir.jobs.window.Listed;
import java.util.List;
import java.util.function.ToLongFunction;

/** The dimensions by which a mix divides packets; each is one constant here. */
final class Dimension extends Listed {
  /** Number of values of a dimension that a mix shows; the others form one row. */
  enum Shown {
    /** {@code --mix-top}. */
    TOP("{mix_top}"),
    /** {@code --mix-top-as}. */
    TOP_AS("{mix_top_as}"),
    /** Countries: there are fewer. */
    ALL("300");

    final String sql;

    Shown(String sql) {
      this.sql = sql;
    }

    int most(int top, int topAs) {
      return switch (this) {
        case TOP -> top;
        case TOP_AS -> topAs;
        case ALL -> 300;
      };
    }
  }

  private static final String APPFLOW = "UNINETT's Appflow";

  /** Bits of an application's number, in the key of a pair of AS and application. */
  private static final int APPLICATION_BITS = 16;

  private static final String SYSTEM = "if(direction = 'out', receiver_as, sender_as)";
  private static final String SYSTEM_NAME = "dictGet('autonomous_system_names', 'name', t.number)";

  /** All packets: every mix shows shares of them. */
  static final Dimension TOTAL =
      new Dimension(1, "total", "total", "", Shown.TOP, way -> 0, "toUInt32(0)", "'all'", false);

  /** The registry. */
  static final List<Dimension> ALL =
      List.of(
          TOTAL,
          new Dimension(
              2,
              "application",
              "application",
              "",
              Shown.TOP,
              Way::application,
              "toUInt32(application)",
              "dictGet('application_names', 'name', t.number)",
              false),
          new Dimension(
              3,
              "as",
              "as, country",
              "those of the outside end; if there is none, of the sender",
              Shown.TOP_AS,
              Way::system,
              SYSTEM,
              SYSTEM_NAME,
              false),
          new Dimension(
              4,
              "country",
              "as, country",
              "those of the outside end; if there is none, of the sender",
              Shown.ALL,
              Way::country,
              "toUInt32(if(direction = 'out', receiver_country, sender_country))",
              "weir_country(t.number)",
              false),
          new Dimension(
              5,
              "customer",
              "customer",
              "that of the inside end; if there is none, of the sender",
              Shown.TOP,
              Way::customer,
              "if(direction = 'in', receiver_customer, sender_customer)",
              "dictGet('customer_names', 'customer', t.number)",
              false),
          new Dimension(
              6,
              "as_application",
              "as_application",
              "each pair of such an AS and an application",
              Shown.TOP,
              way -> way.system() << APPLICATION_BITS | way.application(),
              SYSTEM,
              SYSTEM_NAME,
              true));

  private final Shown shown;
  private final ToLongFunction<Way> key;
  private final String numberSql;
  private final String nameSql;
  private final boolean paired;

  /**
   * Declares a dimension.
   *
   * @param key the value that the packets belong to, from which {@link #number} and {@link
   *     #application} are taken
   * @param numberSql the number over {@code ways} in plain SQL
   * @param nameSql name for the number in {@code t}, the table
   * @param paired whether a value is a pair of a number and an application
   */
  private Dimension(
      int id,
      String name,
      String group,
      String comment,
      Shown shown,
      ToLongFunction<Way> key,
      String numberSql,
      String nameSql,
      boolean paired) {
    super(id, name, group, comment, APPFLOW);
    this.shown = shown;
    this.key = key;
    this.numberSql = numberSql;
    this.nameSql = nameSql;
    this.paired = paired;
  }

  /** The dimension with this id. */
  static Dimension of(int id) {
    return ALL.stream().filter(dimension -> dimension.id() == id).findFirst().orElseThrow();
  }

  /** The value to which the packets of one direction belong. */
  long key(Way way) {
    return key.applyAsLong(way);
  }

  /** The number of a value. */
  long number(long value) {
    return paired ? value >>> APPLICATION_BITS : value;
  }

  /** The application of a value that is a pair, else 0. */
  long application(long value) {
    return paired ? value & (1 << APPLICATION_BITS) - 1 : 0;
  }

  /** How many are shown. */
  Shown shown() {
    return shown;
  }

  /** Number in plain SQL. */
  String numberSql() {
    return numberSql;
  }

  /** Application of a pair in plain SQL. */
  String applicationSql() {
    return paired ? "application" : "toUInt16(0)";
  }

  /** Name in SQL. */
  String nameSql() {
    return nameSql;
  }
}
