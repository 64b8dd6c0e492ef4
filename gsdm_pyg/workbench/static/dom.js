// Small helpers to make elements.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties and children; `vars` are CSS variables. */
export function make(tag, { vars = {}, data = {}, ...properties } = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  for (const [name, value] of Object.entries(vars)) element.style.setProperty(name, value);
  Object.assign(element.dataset, data);
  element.append(...children);
  return element;
}

/** An element of SVG with attributes. */
export function svg(tag, { color, ...attributes } = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (color !== undefined) element.style.setProperty("--color", `var(--c${color % 6})`);
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

/** A number in a few characters. */
export function short(value, digits = 3) {
  if (value === null || value === undefined) return "";
  if (Number.isInteger(value)) return value.toLocaleString("en", { useGrouping: Math.abs(value) >= 1e4 });
  return String(Number(value.toPrecision(digits)));
}
