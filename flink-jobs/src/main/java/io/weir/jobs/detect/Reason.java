package io.weir.jobs.detect;

/**
 * A reason for alerts on hosts, prefixes and customers.
 *
 * @param word in snake case
 * @param technique of MITRE ATT&CK
 * @param quietMs how long nothing more of it must be seen until its alert closes
 */
record Reason(String word, String technique, long quietMs) {}
