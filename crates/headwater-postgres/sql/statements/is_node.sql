-- Whether an instance is still the node of its id.
SELECT EXISTS (SELECT FROM headwater.nodes n WHERE n.namespace_id = $1 AND n.node_id = $2 AND n.instance_id = $3)
