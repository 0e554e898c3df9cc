package io.weir.jobs.detect;

/**
 * What a memory is about: a subject, as one probe sees it, or as all do.
 *
 * @param probe empty for all
 */
record At(Subject subject, String probe) {}
