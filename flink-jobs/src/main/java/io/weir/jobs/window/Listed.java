package io.weir.jobs.window;

/**
 * A declared part of a table of windows: a list or a dimension, which is a value of a column, or an
 * indicator, which is a column. The table's statements, the reference and the plain-SQL check are
 * generated from it.
 */
public abstract class Listed {
  private final int id;
  private final String name;
  private final String group;
  private final String comment;
  private final String source;

  /**
   * Declares it.
   *
   * @param id in the table, in state and between operators: never reuse an id of the same kind
   * @param name for use in SQL
   * @param group of names that the column's comment explains together
   * @param comment its meaning; empty if the column's own comment explains it
   * @param source of the definition: a paper's section, an RFC
   */
  protected Listed(int id, String name, String group, String comment, String source) {
    this.id = id;
    this.name = name;
    this.group = group;
    this.comment = comment;
    this.source = source;
  }

  /** Number in the table, in state and between operators. */
  public final int id() {
    return id;
  }

  /** Name in SQL. */
  public final String name() {
    return name;
  }

  /** Names that the column's comment explains together. */
  final String group() {
    return group;
  }

  /** Its meaning; may be empty. */
  public final String comment() {
    return comment;
  }

  /** The paper or RFC that defines it, with the section. */
  public final String source() {
    return source;
  }
}
