"use strict";
// Behaviour of the console that HTML alone does not have; elements ask for it with data- attributes.
(() => {
  const two = (number) => String(number).padStart(2, "0");

  // Show times in the zone of the browser, in the same form, so that nothing moves. The title keeps UTC.
  const localTimes = (root) => {
    for (const element of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(element.getAttribute("datetime"));
      if (Number.isNaN(moment.getTime())) continue;
      const day = [moment.getFullYear(), two(moment.getMonth() + 1), two(moment.getDate())].join("-");
      const clock = [two(moment.getHours()), two(moment.getMinutes()), two(moment.getSeconds())].join(":");
      element.textContent = `${day} ${clock}`;
    }
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    for (const element of root.querySelectorAll("[data-zone]")) element.textContent = zone || "local time";
  };

  const say = (text) => {
    const place = document.getElementById("notice");
    if (!place) return;
    const line = document.createElement("p");
    line.className = "hidden-text";
    line.textContent = text;
    place.append(line);
    setTimeout(() => line.remove(), 3000);
  };

  const copy = async (button) => {
    const source = document.getElementById(button.dataset.copy);
    if (!source) return;
    const text = source.value !== undefined ? source.value : source.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without https the clipboard is not available; the person copies the selection.
      getSelection().selectAllChildren(source);
      return;
    }
    const before = button.textContent;
    button.textContent = "Copied";
    say("Copied to the clipboard");
    setTimeout(() => { button.textContent = before; }, 2000);
  };

  // Fill a text area with the example of the chosen event type.
  const fillExample = (choice) => {
    const target = document.getElementById(choice.dataset.example);
    const chosen = choice.selectedOptions[0];
    if (target && chosen && chosen.dataset.value) target.value = chosen.dataset.value;
  };

  const prepare = (root) => {
    localTimes(root);
    for (const element of root.querySelectorAll("[data-origin]")) {
      // With the end of its line, because everything after it on this line would move.
      element.textContent = element.textContent.replace("$HOOKWRIGHT_API_URL", location.origin);
    }
    for (const element of root.querySelectorAll("[data-copy], [data-script]")) element.hidden = false;
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
  document.addEventListener("change", (event) => {
    const choice = event.target.closest("select[data-example]");
    if (choice) fillExample(choice);
    if (event.target.type === "datetime-local") setOffset(event.target);
    if (event.target.matches("[data-all]")) markAll(event.target);
  });
  // A box for all boxes of its group.
  const markAll = (box) => {
    for (const other of box.closest("[data-boxes]").querySelectorAll("[type=checkbox]")) other.checked = box.checked;
  };
  // An empty field of a search does not lengthen the address.
  document.addEventListener("formdata", (event) => {
    if (event.target.method !== "get") return;
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
  const focusOnFault = () => {
    const wrong = document.querySelector("[aria-invalid]");
    if (wrong) (wrong.matches("fieldset") ? wrong.querySelector("input") : wrong).focus();
  };
  // The value of the field has no zone, so the form sends the browser's offset at that time with it.
  const setOffset = (field) => {
    const offset = document.querySelector(`[data-offset-of="${field.name}"]`);
    if (!offset) return;
    const moment = field.value ? new Date(field.value) : null;
    offset.value = moment && !Number.isNaN(moment.getTime()) ? String(-moment.getTimezoneOffset()) : "";
  };

  const isSelecting = (target) => {
    const selection = getSelection();
    return selection && !selection.isCollapsed && target.contains(selection.anchorNode);
  };

  const polls = (element) => (element.getAttribute("hx-trigger") || "").startsWith("every");

  const sayIfLive = (isLive) => {
    const state = document.querySelector("[data-poll-state]");
    if (!state) return;
    const text = isLive
      ? "Live: new deliveries and attempts appear here."
      : "Not up to date: the server does not answer, or refuses.";
    if (state.textContent !== text) state.textContent = text;
    state.previousElementSibling.classList.toggle("on", isLive);
  };

  // A page that nobody sees does not poll.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && polls(event.detail.elt)) event.preventDefault();
  });
  // New rows must not end a selection, nor take marks away; a later answer has them, too.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { elt, target } = event.detail;
    if (polls(elt) && (isSelecting(target) || target.querySelector("input:checked"))) event.detail.shouldSwap = false;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, xhr } = event.detail;
    if (polls(elt)) sayIfLive(xhr.status >= 200 && xhr.status < 300);
  });
  document.addEventListener("htmx:afterSwap", (event) => prepare(event.detail.target.parentElement || document));
  document.addEventListener("htmx:load", (event) => prepare(event.target.parentElement || document));
  document.addEventListener("DOMContentLoaded", () => { prepare(document); sayIfLive(true); focusOnFault(); });
})();
