-- Lists all namespaces, with the end of their logs and whether somebody holds them.
SELECT namespace, ordering, last_sequence, writers, is_held FROM headwater.namespace_status()
