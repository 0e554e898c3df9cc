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

  /** All packets, of which every mix shows shares. */
  static final Dimension TOTAL =
      new Dimension(1, "total", "total", "", Shown.TOP, way -> 0, "toUInt32(0)", "'all'");

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
              "dictGet('application_names', 'name', t.number)"),
          new Dimension(
              3,
              "as",
              "as, country",
              "those of the outside end; if there is none, of the sender",
              Shown.TOP_AS,
              Way::system,
              "if(direction = 'out', receiver_as, sender_as)",
              "dictGet('autonomous_system_names', 'name', t.number)"),
          new Dimension(
              4,
              "country",
              "as, country",
              "those of the outside end; if there is none, of the sender",
              Shown.ALL,
              Way::country,
              "toUInt32(if(direction = 'out', receiver_country, sender_country))",
              "weir_country(t.number)"),
          new Dimension(
              5,
              "customer",
              "customer",
              "that of the inside end; if there is none, of the sender",
              Shown.TOP,
              Way::customer,
              "if(direction = 'in', receiver_customer, sender_customer)",
              "dictGet('customer_names', 'customer', t.number)"));

  private final Shown shown;
  private final ToLongFunction<Way> number;
  private final String numberSql;
  private final String nameSql;

  /**
   * Declares a dimension.
   *
   * @param number of the value that the packets belong to
   * @param numberSql the same over {@code ways} in plain SQL
   * @param nameSql name for the number in {@code t}, the table
   */
  private Dimension(
      int id,
      String name,
      String group,
      String comment,
      Shown shown,
      ToLongFunction<Way> number,
      String numberSql,
      String nameSql) {
    super(id, name, group, comment, APPFLOW);
    this.shown = shown;
    this.number = number;
    this.numberSql = numberSql;
    this.nameSql = nameSql;
  }

  /** The dimension with this id. */
  static Dimension of(int id) {
    return ALL.stream().filter(dimension -> dimension.id() == id).findFirst().orElseThrow();
  }

  /** The value to which the packets of one direction belong. */
  long number(Way way) {
    return number.applyAsLong(way);
  }

  /** How many are shown. */
  Shown shown() {
    return shown;
  }

  /** Number in plain SQL. */
  String numberSql() {
    return numberSql;
  }

  /** Name in SQL. */
  String nameSql() {
    return nameSql;
  }
}
