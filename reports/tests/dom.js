// As much of a browser's document as page.js asks for, so that what it draws can be looked at where
// there is none: elements are kept, and written down as HTML.
"use strict";

const VOID = new Set(["br", "input", "meta"]);
const escaped = (text) => text.replace(/[&<>"]/g, (c) =>
  ({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;"})[c]);

class Element {
  constructor(tag) {
    this.tag = tag;
    this.tagName = tag.toUpperCase();
    this.attributes = new Map();
    this.children = [];  // elements and texts
    this.listeners = {};
    this.parentElement = null;
    this.scrolled = 0;
  }
  setAttribute(name, value) { this.attributes.set(name, value); }
  getAttribute(name) { return this.attributes.has(name) ? this.attributes.get(name) : null; }
  removeAttribute(name) { this.attributes.delete(name); }
  append(...children) {
    for (const child of children) {
      if (child instanceof Element) child.parentElement = this;
      this.children.push(child instanceof Element ? child : String(child));
    }
  }
  replaceChildren(...children) { this.children = []; this.append(...children); }
  remove() { this.parentElement.children.splice(this.parentElement.children.indexOf(this), 1); }
  after(element) {
    const row = this.parentElement.children;
    row.splice(row.indexOf(this) + 1, 0, element);
    element.parentElement = this.parentElement;
  }
  get nextElementSibling() {
    const row = this.parentElement.children;
    return row[row.indexOf(this) + 1];
  }
  get textContent() {
    return this.children.map((one) => one instanceof Element ? one.textContent : one).join("");
  }
  set textContent(text) { this.children = [String(text)]; }
  get options() { return this.children; }
  get value() { return this.typed !== undefined ? this.typed : this.getAttribute("value") || ""; }
  set value(value) { this.typed = String(value); }
  get hash() { return this.getAttribute("href"); }
  get open() { return this.attributes.has("open"); }
  set open(isOpen) { this.setAttribute("open", ""); }
  // "tag", ".kind" or "tag.kind", and "#id".
  matches(wanted) {
    if (wanted.startsWith("#")) return this.getAttribute("id") === wanted.slice(1);
    const [tag, kind] = wanted.split("."), kinds = (this.getAttribute("class") || "").split(" ");
    return (!tag || this.tag === tag) && (!kind || kinds.includes(kind));
  }
  closest(wanted) {
    for (let one = this; one; one = one.parentElement) if (one.matches(wanted)) return one;
    return null;
  }
  querySelectorAll(wanted) {
    const found = [];
    for (const child of this.children) {
      if (!(child instanceof Element)) continue;
      if (child.matches(wanted)) found.push(child);
      found.push(...child.querySelectorAll(wanted));
    }
    return found;
  }
  querySelector(wanted) { return this.querySelectorAll(wanted)[0] || null; }
  addEventListener(name, listener) { (this.listeners[name] = this.listeners[name] || []).push(listener); }
  // An event is heard by all that the element is in, too.
  fire(name, more) {
    const event = Object.assign({target: this, preventDefault: () => {}}, more);
    for (let one = this; one; one = one.parentElement) {
      for (const listener of one.listeners[name] || []) listener(event);
    }
  }
  click() { this.fire("click"); }
  focus() { global.document.activeElement = this; }
  scrollIntoView() { ++this.scrolled; }
  get outerHTML() {
    const attributes = [...this.attributes].map(([name, value]) =>
      value === "" ? " " + name : " " + name + "=\"" + escaped(value) + "\"").join("");
    if (VOID.has(this.tag)) return "<" + this.tag + attributes + ">";
    return "<" + this.tag + attributes + ">" + this.children.map((one) =>
      one instanceof Element ? one.outerHTML : escaped(one)).join("") + "</" + this.tag + ">";
  }
}

// A page of the names that page.html has, at an address.
const openPage = (hash = "") => {
  const root = new Element("body");
  for (const [tag, id] of [["div", "top"], ["div", "headline"], ["p", "brand"], ["h1", "sentence"],
    ["p", "ended"],
    ["nav", "contents"], ["main", "sections"]]) {
    const element = new Element(tag);
    element.setAttribute("id", id);
    root.append(element);
  }
  root.createElement = (tag) => new Element(tag);
  root.createElementNS = (_, tag) => new Element(tag);
  root.getElementById = (id) => root.querySelector("#" + id);
  root.activeElement = root;
  global.document = root;
  global.location = {hash};
  global.history = {replaceState: (_, __, address) => { global.location.hash = address; }};
  global.listeners = {};
  global.addEventListener = (name, listener) => { global.listeners[name] = listener; };
  return root;
};

module.exports = {openPage};
