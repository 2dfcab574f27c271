"""The console: pages for people at ``/console/``, made on the server with Jinja2 and htmx.

The console does nothing that ``/v1`` does not do. Its routes call the functions of the routes of ``/v1``, in process,
and show their answers. A page is added like this:

1. **Route.** A function in a module of ``routes/``, which its ``__init__`` imports. A page is
   ``@page("/projects/{project}/deliveries", uses=(search_deliveries,))``, a change is
   ``@action("/projects/{project}/keys/{key}/revoke", uses=(delete_key,))``. Paths begin after ``/console``. Both take a
   `Visit` and return a ``Response``. ``visit.project`` and ``visit.endpoint`` are the objects of the path.
2. **Service call.** ``uses`` names every function of a ``/v1`` route that the page calls. ``await visit.call(list_keys,
   name)`` checks the permission of that function, calls it and returns its JSON document; ``call_endpoint`` adds the
   names of the path. A function that is missing in ``uses`` is a RuntimeError, so the lists that the tests compare are
   complete. A page may use only functions that read. Data of the view is read from ``visit.services.view``. For a part
   of a page that may be missing, ``await attempt(visit.call(...))`` gives None and the `ProblemError` in place of an
   error page.
3. **Permission.** ``permission=`` of ``page`` or ``action``; without it, that of the first function of ``uses``, or
   `ANY_USER`. Templates ask ``may(edit)``, ``may(manage)`` or ``may(administer)`` before they show a button.
4. **Template.** ``return visit.render("deliveries.html", ...)``. Every template extends ``base.html``,
   ``project_base.html`` or ``endpoint_base.html``. An unknown name is an error (StrictUndefined), and everything is
   escaped: never use ``|safe``. ``here`` is the path of the endpoint or of the project, and ``path("projects", name)``
   any other one. ``macros.html`` has ``time(moment)``, ``badge(word)``, ``copy(id)`` and ``empty``.
5. **Form.** ``fields_of`` makes the fields of a form from the class of its request, and ``field(fields.name)`` of
   ``macros.html`` shows one with its label, bounds, help and fault. ``{{ form_token() }}`` adds the hidden field; the
   route checks the origin and the token before the handler. ``read_request`` makes the request of ``visit.form``. With
   ``again=`` the page of a refused form is shown again: with ``visit.form`` and ``visit.problem``, which ``refusal()``
   shows. A change ends with ``return visit.see(path, notice="deleted")`` (303); ``NOTICES`` in ``templating`` has the
   sentences.
6. **Navigation.** ``navigation.py`` has the tabs of a project and of an endpoint: add a line there, and set ``tab`` in
   the template (``{% set tab = "deliveries" %}``).
7. **Scripts and styles.** The content security policy permits files of ``static/`` only, and no inline script or
   style; also no ``style=`` attribute, no ``hx-on`` and no ``hx-vals="js:"``. Behaviour is in ``console.js``, chosen by
   ``data-`` attributes. Every page must work without the script, except for copying and live updates.
"""
