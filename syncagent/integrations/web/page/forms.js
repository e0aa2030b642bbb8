// The fields of a form, from its JSON schema. The server checks the values.

import { element, visible } from "./text.js";

const TYPES = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

// The choices of a schema: enum, with or without names, or a list of constants with titles.
function choicesOf(schema) {
  const titled = schema.oneOf || schema.anyOf;
  if (Array.isArray(schema.enum)) return schema.enum.map((value, n) => [value, schema.enumNames?.[n] ?? value]);
  return Array.isArray(titled) ? titled.map((each) => [each.const, each.title ?? each.const]) : null;
}

function select(choices, chosen, isMultiple, mayBeEmpty) {
  const made = element("select", "");
  made.multiple = isMultiple;
  if (isMultiple) made.size = Math.min(8, choices.length);
  else if (mayBeEmpty) made.append(new Option("", ""));
  for (const [value, title] of choices) made.append(new Option(visible(title), value, false, chosen.includes(value)));
  return made;
}

// Return the element of a field, and the function that reads it: undefined if it is left out.
function control(schema, isRequired) {
  const { type, format, default: initial } = schema;
  const hasDefault = initial !== undefined && initial !== null;
  const choices = choicesOf(type === "array" ? schema.items : schema);
  if (type === "array") {
    const input = select(choices, hasDefault ? initial : [], true, false);
    const read = () => { const chosen = [...input.selectedOptions].map((each) => each.value); return chosen.length || hasDefault || isRequired ? chosen : undefined; };
    return { input, read };
  }
  if (choices) {
    const input = select(choices, hasDefault ? [initial] : [], false, !hasDefault || !isRequired);
    const empty = input.options.length - choices.length; // an option may be the empty string, too
    return { input, read: () => (input.selectedIndex < empty ? undefined : input.value) };
  }
  const input = element("input", "");
  input.autocomplete = "off";
  if (type === "boolean") {
    input.type = "checkbox"; input.checked = initial === true;
    return { input, read: () => input.checked };
  }
  if (type === "number" || type === "integer") {
    input.type = "number"; input.step = type === "integer" ? "1" : "any";
    if (schema.minimum !== undefined) input.min = schema.minimum;
    if (schema.maximum !== undefined) input.max = schema.maximum;
    if (hasDefault) input.value = initial;
    return { input, read: () => { if (input.validity.badInput) throw new Error("This is not a number."); return input.value === "" ? undefined : input.valueAsNumber; } };
  }
  input.type = TYPES[format] || "text";
  if (format === "date-time") {
    const local = (date) => new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
    if (hasDefault) input.value = local(new Date(initial));
    return { input, read: () => (input.value ? new Date(input.value).toISOString() : undefined) };
  }
  if (hasDefault) input.value = initial;
  return { input, read: () => (input.value === "" && !hasDefault ? undefined : input.value) };
}

// Return the fields of a form, each with its name, its root, its input and a function that reads it.
export function fieldsOf(form) {
  const required = form.required || [];
  return Object.entries(form.properties).map(([name, schema]) => {
    const isRequired = required.includes(name);
    const { input, read } = control(schema, isRequired);
    input.name = name;
    const title = visible(schema.title || name) + (isRequired || input.type === "checkbox" ? "" : " (optional)");
    const hint = schema.description ? [element("span", "hint", visible(schema.description))] : [];
    const root = input.type === "checkbox" ? element("label", "check", input, title, ...hint) : element("label", "field", title, ...hint, input);
    return { name, root, input, read };
  });
}

// Return the values of the fields that are filled in. Throws if one cannot be read.
export function valuesOf(fields) {
  const values = {};
  for (const { name, input, read } of fields) {
    try { const value = read(); if (value !== undefined) values[name] = value; } catch (error) { input.focus(); throw new Error(`${visible(name)}: ${error.message}`); }
  }
  return values;
}
