package io.weir.jobs.detect;

import java.util.List;

/**
 * A reason for alerts on hosts, prefixes and customers.
 *
 * @param word in snake case, by which rules name the detector
 * @param technique of MITRE ATT&CK
 * @param quietMs how long nothing more of it must be seen until its alert closes
 * @param parameters that rules may replace
 */
record Reason(String word, String technique, long quietMs, List<Parameter> parameters) {}
