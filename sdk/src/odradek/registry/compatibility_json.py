"""JSON Schema compatibility: the reasons why a reader's schema does not accept all documents that a writer's accepts.

The sets of documents are compared keyword by keyword, so that an empty list is a proof:

    compared       type, enum, const; minimum ... multipleOf; minLength, maxLength, pattern (if equal); items,
                   prefixItems, additionalItems, minItems, maxItems, uniqueItems; properties, patternProperties (if
                   equal), additionalProperties, required, minProperties, maxProperties; $ref; allOf, anyOf, oneOf
    equal or not   not, if/then/else, contains, propertyNames, dependent..., dependencies, unevaluated...: the reader
                   may have the same as the writer; any other is refused, since it cannot be compared
    annotations    title, description, default, examples, format, content..., $comment: are ignored

So adding a property is refused if the earlier schema allows other properties (a document may already have it with
another type), and removing one is refused if the new schema does not allow other properties: the first version's
`additionalProperties` decides how a schema can evolve. As in Confluent's registry, a new required property with a
default is accepted. A branch that is added to `oneOf` must be distinguishable from the others: by its type, or by a
required property with another const or enum.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from odradek.patterns import PatternInvalid, compile_pattern
from odradek.registry.budget import Budget
from odradek.registry.errors import SchemaInvalid
from odradek.registry.json_schema import Document, Node

_ALL_TYPES = frozenset({"null", "boolean", "number", "string", "array", "object"})
_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "example", "format", "$comment", "$schema", "$id", "id", "$anchor",
     "definitions", "$defs", "readOnly", "writeOnly", "deprecated", "contentEncoding", "contentMediaType",
     "contentSchema", "$vocabulary"}
)  # fmt: skip
_TOGETHER = (
    ("not",), ("if", "then", "else"), ("contains", "minContains", "maxContains"), ("propertyNames",),
    ("dependentRequired",), ("dependentSchemas",), ("dependencies",), ("pattern",), ("patternProperties",),
)  # fmt: skip
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"})
_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies", "dependentRequired")
_MATCHED_LENGTH_MAX = 1_000  # of a name that is matched with patterns

_LOWER = (("minimum", "number"), ("minLength", "string"), ("minItems", "array"), ("minProperties", "object"))
_UPPER = (("maximum", "number"), ("maxLength", "string"), ("maxItems", "array"), ("maxProperties", "object"))


def unreadable(reader: Document, writer: Document, budget: Budget | None = None) -> list[str]:
    """List the reasons why the reader would refuse documents of the writer; empty if it accepts all."""
    try:
        return _Question(reader, writer, budget or Budget()).ask(reader.root, reader.root, writer.root, writer.root, "")
    except SchemaInvalid as error:
        return [str(error)]
    except RecursionError:
        return ["/: the schemas are nested too deeply to be compared"]


class _Question:
    def __init__(self, reader: Document, writer: Document, budget: Budget) -> None:
        self._reader, self._writer = reader, writer
        self._budget = budget
        self._sizes: dict[int, int] = {}  # of schemas as text, by id
        # Pairs being compared, with their depth in a document: met again deeper down, they count as compatible.
        self._open: dict[tuple[int, int], int] = {}
        self._depth = 0
        self._made: list[Any] = []  # keeps composed schemas alive, so that no id is used twice
        self._joined: dict[int, Any] = {}  # a $ref with siblings, by the id of its node
        self._has_same_parts = _parts(reader) == _parts(writer)

    def ask(self, r: Node, r_base: Node, w: Node, w_base: Node, at: str) -> list[str]:
        """List the reasons why the writer's schema `w` allows documents that the reader's `r` does not."""
        r, r_base = self._follow(self._reader, r, r_base)
        w, w_base = self._follow(self._writer, w, w_base)
        pair = (id(r), id(w))
        if r is True or w is False:
            return []
        if pair in self._open:
            if self._open[pair] < self._depth:
                return []
            raise SchemaInvalid(f"{at or '/'}: a schema is defined only by itself")
        self._budget.spend(8 + (self._size(r) + self._size(w) + len(at)) // 64)
        self._open[pair] = self._depth
        try:
            problems = self._compare(_as_dict(r), r_base, _as_dict(w), w_base, at)
        finally:
            del self._open[pair]
        self._budget.spend(sum(map(len, problems)) // 256)
        return problems

    def _size(self, node: Node) -> int:
        """Return the length of a schema's text, which bounds the cost of reading it; kept as long as the question."""
        size = self._sizes.get(id(node))
        if size is None:
            size = self._sizes[id(node)] = len(json.dumps(node))
        return size

    def _ask_inside(self, r: Node, r_base: Node, w: Node, w_base: Node, at: str) -> list[str]:
        """Compare the schemas of an element or a property, as `ask` does."""
        self._depth += 1
        try:
            return self.ask(r, r_base, w, w_base, at)
        finally:
            self._depth -= 1

    def _is_same(self, one: Any, other: Any) -> bool:
        """Return True if two values are equal and so is everything that they refer to."""
        text = _meaning(one)
        if text != _meaning(other):
            return False
        return "$ref" not in text or self._has_same_parts

    def _follow(self, document: Document, node: Node, base: Node) -> tuple[Node, Node]:
        for _ in range(32):
            if not isinstance(node, dict) or "$ref" not in node:
                return node, base
            target, target_base = document.resolve(node["$ref"], base)
            siblings = {key: subschema for key, subschema in node.items() if key != "$ref" and key not in _ANNOTATIONS}
            if siblings:  # siblings count too (2019-09 and later): both must hold
                if base is not target_base:
                    raise SchemaInvalid("a $ref to another document has siblings: move them there")
                if id(node) not in self._joined:
                    self._joined[id(node)] = {**siblings, "allOf": [*siblings.get("allOf", []), {"$ref": node["$ref"]}]}
                    self._made.append(node)
                return self._joined[id(node)], base
            node, base = target, target_base
        raise SchemaInvalid("a $ref leads to itself")

    def _compare(self, r: dict[str, Any], r_base: Node, w: dict[str, Any], w_base: Node, at: str) -> list[str]:
        location = at or "/"
        if unevaluated := sorted(_UNEVALUATED & (r.keys() | w.keys())):
            return [] if self._is_same(r, w) else [f"{location}: {', '.join(unevaluated)} cannot be compared"]
        for key in ("anyOf", "oneOf"):
            if key in w and not self._is_same(w[key], r.get(key)):
                return self._writers_branches(key, r, r_base, w, w_base, at)
        if "allOf" in w and not self._is_same(w["allOf"], r.get("allOf")):
            return self._writers_parts(r, r_base, w, w_base, at)
        problems = self._readers_parts(r, r_base, w, w_base, at)
        problems += self._together(r, w, location)
        kinds = _types(r), _types_with_values(w)
        if lost := _lost_types(*kinds):
            return [*problems, f"{location}: the type {', '.join(sorted(lost))} is no longer allowed"]
        problems += _values(r, w, location)
        if ("enum" in w or "const" in w) and not _BOUNDS & r.keys():
            return problems
        problems += _numbers(r, w, kinds[1], location)
        if "array" in kinds[1]:
            problems += self._arrays(r, r_base, w, w_base, at)
        if "object" in kinds[1]:
            problems += self._objects(r, r_base, w, w_base, at)
        return problems

    # --- combinations -------------------------------------------------------------------------------------------------

    def _writers_branches(
        self, key: str, r: dict[str, Any], r_base: Node, w: dict[str, Any], w_base: Node, at: str
    ) -> list[str]:
        """The reader must accept each branch together with the keywords beside it, or those keywords alone."""
        without_key = self._keep({name: subschema for name, subschema in w.items() if name != key})
        if not self.ask(r, r_base, without_key, w_base, at):
            return []
        problems = []
        for i, branch in enumerate(w[key]):
            joined = branch if not _meaning(without_key) else self._keep({"allOf": [branch, without_key]})
            problems += self.ask(r, r_base, joined, w_base, f"{at}/{key}/{i}")
        return problems

    def _writers_parts(self, r: dict[str, Any], r_base: Node, w: dict[str, Any], w_base: Node, at: str) -> list[str]:
        """A document of `allOf` matches each part: the reader must accept one of the parts, or all of them merged."""
        without_all_of = self._keep({name: subschema for name, subschema in w.items() if name != "allOf"})
        merged = self._merge([*w["allOf"], without_all_of], w_base)
        problems: list[str] = []
        for part in [merged] if merged is not None else [*w["allOf"], without_all_of]:
            problems = self.ask(r, r_base, part, w_base, at)
            if not problems:
                return []
        return problems if merged is not None else [f"{at or '/'}: the parts of allOf cannot be compared together"]

    def _merge(self, parts: Sequence[Node], base: Node) -> dict[str, Any] | None:
        """Merge the parts of an allOf into one schema; return None if two parts have the same keyword."""
        merged: dict[str, Any] = {}
        for unmerged in parts:
            part, part_base = self._follow(self._writer, unmerged, base)
            if part is True:
                continue
            if part is False or part_base is not base:
                return None
            plain = {key: value for key, value in part.items() if key not in _ANNOTATIONS}
            for key in list(plain):
                if key not in merged:
                    continue
                if _meaning(merged[key]) == _meaning(plain[key]):
                    del plain[key]
                elif key == "required":
                    plain[key] = [*merged[key], *plain[key]]
                elif key == "properties" and not merged[key].keys() & plain[key].keys():
                    plain[key] = {**merged[key], **plain[key]}
                else:
                    return None
            merged.update(plain)
        # Merging may weaken a part (it then allows the others' properties), which errs on the safe side. But these
        # keywords depend on a keyword beside them, and would apply to another part's.
        if merged.keys() & {"then", "else", "minContains", "maxContains"}:
            return None
        if True in (merged.get("exclusiveMinimum"), merged.get("exclusiveMaximum")):
            return None
        self._made.append(merged)
        return merged

    def _readers_parts(self, r: dict[str, Any], r_base: Node, w: dict[str, Any], w_base: Node, at: str) -> list[str]:
        problems = []
        if "allOf" in r and not self._is_same(r["allOf"], w.get("allOf")):
            for i, part in enumerate(r["allOf"]):
                problems += self.ask(part, r_base, w, w_base, f"{at}/allOf/{i}")
        for key in ("anyOf", "oneOf"):
            if key not in r or self._is_same(r[key], w.get(key)):
                continue
            fitting = next((branch for branch in r[key] if not self.ask(branch, r_base, w, w_base, at)), None)
            if fitting is None:
                problems.append(f"{at or '/'}: no branch of {key} accepts all of it")
            elif key == "oneOf":
                others = [branch for branch in r[key] if branch is not fitting]
                if not all(self._is_apart(w, w_base, other, r_base) for other in others):
                    problems.append(f"{at or '/'}: the branches of oneOf cannot be distinguished; use anyOf or a const")
        return problems

    def _is_apart(self, w: Node, w_base: Node, branch: Node, base: Node) -> bool:
        """Return True if certainly no document of the writer matches the branch."""
        w, w_base = self._follow(self._writer, w, w_base)
        branch, base = self._follow(self._reader, branch, base)
        if w is False or branch is False:
            return True
        if not isinstance(w, dict) or not isinstance(branch, dict):
            return False
        if not _overlap(_types(w), _types(branch)):
            return True
        mine, theirs = _listed(w), _listed(branch)
        if mine is not None and theirs is not None and not mine & theirs:
            return True
        if _types(w) != {"object"} or _types(branch) != {"object"}:
            return False
        for name in set(w.get("required", [])) & set(branch.get("required", [])):
            ours, other = w.get("properties", {}).get(name), branch.get("properties", {}).get(name)
            if ours is not None and other is not None and self._is_apart(ours, w_base, other, base):
                return True
        return False

    def _together(self, r: dict[str, Any], w: dict[str, Any], location: str) -> list[str]:
        """Compare keywords that must be equal or only the writer's; patternProperties may not be removed either."""
        problems = []
        for group in _TOGETHER:
            mine = {key: r[key] for key in group if key in r}
            theirs = {key: w[key] for key in group if key in w}
            if group == ("pattern",) and not (_types(w) & {"string"}):
                continue
            if mine and not self._is_same(mine, theirs):
                problems.append(f"{location}: {', '.join(mine)} was added or changed, which cannot be compared")
            elif theirs and not mine and group == ("patternProperties",):
                problems.append(f"{location}: patternProperties was removed, which cannot be compared")
        known_keywords = _ANNOTATIONS | _KEYWORDS
        unknown = [key for key in sorted(r.keys() - known_keywords) if _meaning(r[key]) != _meaning(w.get(key))]
        return problems + [f"{location}: {key!r} is unknown, and was added or changed" for key in unknown]

    def _keep(self, made: Node) -> Any:
        self._made.append(made)
        return made

    # --- arrays and objects -------------------------------------------------------------------------------------------

    def _arrays(self, r: dict[str, Any], r_base: Node, w: dict[str, Any], w_base: Node, at: str) -> list[str]:
        problems = []
        if r.get("uniqueItems") and not w.get("uniqueItems"):
            problems.append(f"{at or '/'}: uniqueItems was added")
        (r_first, r_rest), (w_first, w_rest) = _items(r), _items(w)
        for i in range(min(max(len(r_first), len(w_first)), w.get("maxItems", 1 << 30))):
            mine = r_first[i] if i < len(r_first) else r_rest
            theirs = w_first[i] if i < len(w_first) else w_rest
            problems += self._ask_inside(mine, r_base, theirs, w_base, f"{at}/items/{i}")
        if w.get("maxItems", 1 << 30) > len(w_first):
            problems += self._ask_inside(r_rest, r_base, w_rest, w_base, f"{at}/items")
        return problems

    def _objects(self, r: dict[str, Any], r_base: Node, w: dict[str, Any], w_base: Node, at: str) -> list[str]:
        problems = []
        mine, theirs = r.get("properties", {}), w.get("properties", {})
        for name in sorted(set(_required(r)) - set(_required(w))):
            declared = mine.get(name)
            if not isinstance(declared, dict) or "default" not in declared:
                problems.append(f"{at}/required: {name!r} is now required and has no default")
        for name in sorted(mine.keys() | theirs.keys()):
            property_problems = self._ask_inside(
                self._property(r, name), r_base, self._property(w, name), w_base, f"{at}/properties/{name}"
            )
            if property_problems and name not in theirs:
                property_problems = [
                    f"{at}/properties/{name}: it was added, but the earlier schema allows other properties"
                ]
            elif property_problems and name not in mine:
                property_problems = [
                    f"{at}/properties/{name}: it was removed, but no other property is allowed, or none of its type"
                ]
            problems += property_problems
        r_rest, w_rest = r.get("additionalProperties", True), w.get("additionalProperties", True)
        problems += self._ask_inside(r_rest, r_base, w_rest, w_base, f"{at}/additionalProperties")
        return problems

    def _property(self, schema: dict[str, Any], name: str) -> Node:
        """Return the schema of a property: its own, those of matching patterns, or else that of other properties."""
        schemas = [schema["properties"][name]] if name in schema.get("properties", {}) else []
        schemas += [
            subschema for text, subschema in schema.get("patternProperties", {}).items() if self._fits(text, name)
        ]
        if not schemas:
            return schema.get("additionalProperties", True)
        return schemas[0] if len(schemas) == 1 else self._keep({"allOf": schemas})

    def _fits(self, text: str, name: str) -> bool:
        if len(name) > _MATCHED_LENGTH_MAX:
            raise SchemaInvalid(f"a name beside patternProperties must have at most {_MATCHED_LENGTH_MAX} characters")
        try:
            pattern = compile_pattern(text)
        except PatternInvalid as error:
            raise SchemaInvalid(
                f"patternProperties: {text[:100]!r} is not a regular expression of RE2: {error}"
            ) from None
        self._budget.spend(2 + pattern.program_size * (64 + len(name)) // 64)
        return pattern.occurs_in(name)


# --- keywords of one level --------------------------------------------------------------------------------------------

_KEYWORDS = frozenset(
    {"type", "enum", "const", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "items", "prefixItems",
     "additionalItems", "uniqueItems", "properties", "additionalProperties", "required", "allOf", "anyOf", "oneOf",
     *(key for key, _ in (*_LOWER, *_UPPER)), *(key for group in _TOGETHER for key in group)}
)  # fmt: skip

# Keywords that may refuse a listed value.
_BOUNDS = _KEYWORDS - {"type", "enum", "const", "allOf", "anyOf", "oneOf"}


def _as_dict(node: Node) -> dict[str, Any]:
    if node is True:
        return {}
    return {"type": []} if node is False else node


def _parts(document: Document) -> str:
    """Return everything that a `$ref` may point to, as one text."""
    root = document.root if isinstance(document.root, dict) else {}
    if any(not ref.startswith(("#/definitions/", "#/$defs/")) for ref in document.refs()):
        return f"{id(document)}"
    return _meaning([*({"properties": root.get(key, {})} for key in ("definitions", "$defs"))])


def _meaning(node: Any) -> str:
    """Return a text that is equal for schemas that differ only in order and annotations."""
    text: str = json.dumps(_bare(node, is_schema=True), sort_keys=True)
    return text


def _bare(node: Any, *, is_schema: bool) -> Any:
    if isinstance(node, list):
        return [_bare(element, is_schema=True) for element in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for key, child in node.items():
        if is_schema and key in _ANNOTATIONS:
            continue
        if is_schema and key in ("enum", "const"):
            out[key] = child
        else:  # below `properties` and its like the keys are names, annotations' names included
            out[key] = _bare(child, is_schema=not (is_schema and key in _NAMED))
    return out


def _types(schema: dict[str, Any]) -> set[str]:
    kinds = schema.get("type")
    if kinds is None:
        return set(_ALL_TYPES)
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _types_with_values(schema: dict[str, Any]) -> set[str]:
    """Return the types that documents may have, limited by enum and const."""
    kinds = _types(schema)
    if "enum" not in schema and "const" not in schema:
        return kinds
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    listed = {_type_of(value) for value in values}
    return {type_name for type_name in listed if type_name in kinds or (type_name == "integer" and "number" in kinds)}


def _lost_types(r: set[str], w: set[str]) -> set[str]:
    return {type_name for type_name in w if type_name not in r and not (type_name == "integer" and "number" in r)}


def _overlap(one: set[str], other: set[str]) -> bool:
    wide = [kinds | ({"integer"} if "number" in kinds else set()) for kinds in (one, other)]
    return bool(wide[0] & wide[1])


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _listed(schema: dict[str, Any]) -> set[str] | None:
    listed = {_value(constant) for constant in schema["enum"]} if "enum" in schema else None
    if "const" not in schema:
        return listed
    const = {_value(schema["const"])}
    return const if listed is None else const & listed


def _value(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _values(r: dict[str, Any], w: dict[str, Any], location: str) -> list[str]:
    mine, theirs = _listed(r), _listed(w)
    if mine is None:
        return []
    if theirs is None:
        return [f"{location}: only some values are still allowed"]
    lost = sorted(theirs - mine)
    return [f"{location}: the value {', '.join(lost)} is no longer allowed"] if lost else []


def _limit(schema: dict[str, Any], inclusive: str, exclusive: str, sign: int) -> tuple[float, int] | None:
    """Return a bound as (number, 1 if excluded), with the sign changed so that larger is stricter."""
    limits = []
    excluded = schema.get(exclusive)
    if inclusive in schema:
        limits.append((sign * schema[inclusive], int(excluded is True)))
    if isinstance(excluded, int | float) and not isinstance(excluded, bool):
        limits.append((sign * excluded, 1))
    return max(limits, default=None)


def _numbers(r: dict[str, Any], w: dict[str, Any], kinds: set[str], location: str) -> list[str]:
    problems = []
    if kinds & {"number", "integer"}:
        for inclusive, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
            mine, theirs = _limit(r, inclusive, exclusive, sign), _limit(w, inclusive, exclusive, sign)
            if mine is not None and (theirs is None or mine > theirs):
                problems.append(f"{location}: {inclusive} was added or is stricter")
        step, their_step = r.get("multipleOf"), w.get("multipleOf", None if "number" in kinds else 1)
        if step is not None and (their_step is None or Fraction(str(their_step)) % Fraction(str(step)) != 0):
            problems.append(f"{location}: multipleOf was added or is stricter")
    for key, type_name in _LOWER[1:]:
        if type_name in kinds and r.get(key, 0) > w.get(key, 0):
            problems.append(f"{location}: {key} was added or is stricter")
    for key, type_name in _UPPER[1:]:
        if type_name in kinds and key in r and (key not in w or r[key] < w[key]):
            problems.append(f"{location}: {key} was added or is stricter")
    return problems


def _required(schema: dict[str, Any]) -> list[str]:
    names = schema.get("required", [])
    return names if isinstance(names, list) else []


def _items(schema: dict[str, Any]) -> tuple[list[Node], Node]:
    """Return the schemas of the first elements, and that of the others."""
    if "prefixItems" in schema:
        return schema["prefixItems"], schema.get("items", True)
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items
