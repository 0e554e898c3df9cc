package io.weir.jobs.detect;

/**
 * A number that rules may replace.
 *
 * @param name in snake case, with its unit
 * @param value without a rule
 * @param least that a rule may say
 * @param most that a rule may say
 */
record Parameter(String name, double value, double least, double most, String comment) {}
